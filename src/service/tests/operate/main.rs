//! What operators do with `nrid` while it runs. Plugins are the example `logger` of the SDK.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which clippy takes for ordinary code"
)]

mod idle;
mod node;
mod reload;
mod restart;
