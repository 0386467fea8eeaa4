//! Life cycle of a plugin session: registration, configuration, synchronization, requests of the
//! plugin, end.
//!
//! Programs are launched by [`crate::launch`], and connections accepted by `Adaptation`. Start from
//! [`Connection`](handshake::Connection).

pub(crate) mod admission;
pub(crate) mod handshake;
mod service;
pub(crate) mod synchronize;
