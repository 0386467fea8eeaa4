//! The control socket, and the requests that only report.

pub mod server;
pub mod status;
pub mod verify;
