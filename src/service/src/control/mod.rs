//! The control socket, and the requests that only read: status, descriptions and
//! verification.

pub mod describe;
mod names;
mod page;
pub mod peer;
pub mod places;
mod plugin_calls;
mod recorded;
pub mod server;
pub mod status;
pub mod verify;
