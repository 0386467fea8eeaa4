//! Life cycle of a plugin session: registration, configuration, synchronization, requests of the
//! plugin, end.
//!
//! Launching programs and accepting connections is not done here. Start from
//! [`Connection`](handshake::Connection).

pub(crate) mod admission;
pub(crate) mod handshake;
mod service;
pub(crate) mod synchronize;
