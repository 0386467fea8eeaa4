//! The control socket, and the requests that only read: status, descriptions and
//! verification.

pub mod describe;
pub mod peer;
mod plugin_calls;
pub mod server;
pub mod status;
pub mod verify;
