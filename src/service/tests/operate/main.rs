//! What operators do with `nrid` while it runs, and creations that it refuses. Plugins are examples
//! of the SDK.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which clippy takes for ordinary code"
)]

mod create;
mod idle;
mod node;
mod reload;
mod restart;
