//! Tests of the merge through its public interface.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which clippy takes for ordinary code"
)]

mod adjustment;
mod cases;
mod properties;
mod removal;
mod size;
mod updates;
mod validator;
