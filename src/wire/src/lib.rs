//! NRI on the wire: the trunk multiplexer and ttrpc over it, for both ends of a plugin's socket.
//!
//! Start from [`RuntimeEnd`] or [`PluginEnd`], which serve the two NRI services over one [`Trunk`].
//! A trunk carries several byte streams ([`Conn`]) over one socket; [`Decoder`] and [`encode`] are
//! its frame format without I/O.
//!
//! Deliberately absent: registration, synchronization, the order of events, and the handling of
//! plugins that fail. This crate transports bytes and calls, and its errors name their cause.

#![deny(unsafe_code)]

mod error;
mod generated;
mod rpc;
mod trunk;

pub use error::{CallError, WireError};
pub use rpc::client::{PluginClient, RuntimeClient};
pub use rpc::ends::{PluginEnd, RuntimeEnd};
pub use rpc::message::{Message, MessageError, MessageKind, Messages};
pub use rpc::size::{
    PLUGIN_SERVICE, Payload, RUNTIME_SERVICE, fits, max_message, message_size, request_size,
};
pub use rpc::trace::TraceContext;
pub use trunk::closed::Closed;
pub use trunk::conn::Conn;
pub use trunk::frame::{ConnId, Decoder, FRAME_HEADER, Frame, FrameError, MAX_PAYLOAD, encode};
pub use trunk::handle::Trunk;
pub use trunk::limits::Limits;

/// The two services of the protocol, [`Runtime`] and [`Plugin`], as traits for those who implement
/// them: a method without an implementation replies `UNIMPLEMENTED`.
pub use rpc::service::{CallLimits, Context, Plugin, Runtime, status};

/// The ttrpc library, which defines the result and error types of the service traits.
pub use ttrpc;
