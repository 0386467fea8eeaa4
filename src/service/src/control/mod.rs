//! The control socket, and the requests that only read: status and verification.

pub mod peer;
pub mod server;
pub mod status;
pub mod verify;
