//! NRI on the wire: the trunk multiplexer and ttrpc over it, for either end of a plugin's socket.
//!
//! From below: [`Decoder`] and [`encode`] are the frame format without I/O; [`Trunk`] carries
//! several byte streams ([`Conn`]) over one socket; [`RuntimeEnd`] and [`PluginEnd`] put the two
//! NRI services on it. Start from [`RuntimeEnd`].
//!
//! Deliberately absent: registration, synchronization, the order of events and what to do about a
//! plugin that fails. Those are decisions; here are only bytes, calls and errors that say whose
//! fault they are.

#![deny(unsafe_code)]

mod client;
mod closed;
mod conn;
mod ends;
mod error;
mod frame;
mod guard;
mod message;
mod service;
mod shared;
mod size;
mod trunk;

mod generated {
    pub(crate) use nri_api::proto as nri;
    #[allow(missing_docs, unreachable_pub, rust_2018_idioms, unsafe_code, clippy::all, clippy::unwrap_used)]
    #[rustfmt::skip]
    pub(crate) mod nri_ttrpc;
}

pub use client::{PluginClient, RuntimeClient};
pub use closed::Closed;
pub use conn::Conn;
pub use ends::{PluginEnd, RuntimeEnd};
pub use error::{CallError, WireError};
pub use frame::{ConnId, Decoder, FRAME_HEADER, Frame, FrameError, MAX_PAYLOAD, encode};
pub use message::{Message, MessageError, MessageKind, Messages};
pub use size::{PLUGIN_SERVICE, RUNTIME_SERVICE, fits, max_message, message_size, request_size};
pub use trunk::{Limits, Trunk};

/// The services as traits, to be implemented by who serves them: [`Runtime`] by a runtime,
/// [`Plugin`] by a plugin. A method that is not implemented answers `UNIMPLEMENTED`.
pub use service::{Context, Plugin, Runtime, status};

/// The ttrpc library, whose result and error types the service traits use.
pub use ttrpc;
