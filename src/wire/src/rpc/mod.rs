//! ttrpc over connections of a trunk. Start from [`RuntimeEnd`](ends::RuntimeEnd).

pub(crate) mod calls;
pub(crate) mod client;
pub(crate) mod ends;
mod envelope;
pub(crate) mod message;
mod server;
pub(crate) mod service;
pub(crate) mod size;
pub(crate) mod trace;
