//! The control socket: transport, and the requests that only report.

pub mod connection;
pub mod server;
pub mod status;
pub mod verify;
