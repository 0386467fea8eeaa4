//! Causes of the end of a trunk.

use crate::rpc::message::MessageError;
use crate::trunk::frame::{ConnId, FrameError};
use std::{io, sync::Arc};

/// Reason why a trunk ended. The first cause is kept.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Closed {
    /// This end closed the trunk, or dropped all handles of it.
    #[error("this end closed the connection")]
    Local,
    /// The peer closed its end, between two frames.
    #[error("the peer closed the connection")]
    Peer,
    /// The peer closed its end within a frame.
    #[error("the peer closed the connection in the middle of a message")]
    Truncated(usize),
    /// Reading or writing the socket failed.
    #[error("socket error")]
    Io(#[source] Arc<io::Error>),
    /// The peer sent an invalid frame.
    #[error("the peer violated the frame format")]
    Frame(#[source] FrameError),
    /// The peer sent an invalid ttrpc message.
    #[error("the peer violated ttrpc on connection {conn}")]
    Message {
        /// Connection of the message.
        conn: ConnId,
        /// Error in the message.
        #[source]
        source: MessageError,
    },
    /// The peer sent more data for connections that are not open than the limits allow.
    #[error("the peer sent {bytes} bytes for connections that are not open, the last for {conn}")]
    Unopened {
        /// Connection of the last frame.
        conn: ConnId,
        /// Bytes received for all connections that are not open.
        bytes: usize,
    },
}

impl Closed {
    /// Whether the session ended normally, without a failure.
    pub fn is_clean(&self) -> bool {
        matches!(self, Self::Local | Self::Peer)
    }

    /// Whether the peer violated the protocol.
    pub fn is_violation(&self) -> bool {
        matches!(
            self,
            Self::Truncated(_) | Self::Frame(_) | Self::Message { .. } | Self::Unopened { .. }
        )
    }

    /// Returns the result of a read after the end: the end of the stream, or an error.
    pub(crate) fn to_read_result(&self) -> io::Result<()> {
        if self.is_clean() {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::ConnectionAborted, self.clone()))
        }
    }

    pub(crate) fn to_write_error(&self) -> io::Error {
        io::Error::new(io::ErrorKind::BrokenPipe, self.clone())
    }
}
