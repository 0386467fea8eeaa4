//! ttrpc over connections of a trunk. Start from [`RuntimeEnd`](ends::RuntimeEnd).
//!
//! The client and the server of the crate `ttrpc` are not used: each has tasks that hand every
//! message on, and copies it twice. Its envelopes, statuses and traits are.

pub(crate) mod calls;
pub(crate) mod client;
pub(crate) mod ends;
mod envelope;
pub(crate) mod message;
mod server;
pub(crate) mod service;
pub(crate) mod size;
pub(crate) mod trace;
