//! The control socket, and the requests of operators: status, descriptions, verification, reload
//! and restart.

pub mod describe;
mod names;
mod page;
pub mod peer;
pub mod places;
mod plugin_calls;
mod recorded;
pub mod reload;
pub mod restart;
pub mod server;
pub mod status;
pub mod verify;
