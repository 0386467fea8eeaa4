//! Tests of the merge through its public interface.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy treats test helpers as ordinary code"
)]

mod adjustment;
mod cases;
mod properties;
mod removal;
mod size;
mod updates;
mod validator;
