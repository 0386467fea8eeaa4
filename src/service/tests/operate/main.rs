//! Operation of a running `nrid`: reloads, restarts, the idle timeout, refused creations. Plugins
//! are examples of the SDK.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests: clippy exempts only functions with #[test]"
)]

mod create;
mod idle;
mod node;
mod reload;
mod restart;
