//! The client's end of a connection.

use crate::{FrameError, PROTOCOL, Reply, Request, Versioned, frame};
use std::{
    io,
    os::{fd::BorrowedFd, unix::net::UnixStream},
    path::Path,
    time::Duration,
};

/// A connection to `nrid`.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error("cannot connect to nrid: {0}")]
    Connect(#[source] std::io::Error),
    /// The connection failed.
    #[error("connection to nrid: {0}")]
    Frame(#[from] FrameError),
    /// Another release.
    #[error("nrid is of version {0}, which speaks another protocol: run 'nrictl stop'")]
    OtherVersion(String),
}

impl Client {
    /// Connects to a control socket.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn connect(socket: &Path) -> Result<Self, ClientError> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", socket.display()));
        UnixStream::connect(socket).map(|stream| Self { stream }).map_err(|e| ClientError::Connect(named(e)))
    }

    /// Limits the time that each answer may take; none waits for as long as the connection lasts.
    ///
    /// # Errors
    /// The socket refuses it.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> Result<(), ClientError> {
        self.stream.set_read_timeout(timeout).map_err(|e| FrameError::from(e).into())
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// The connection fails, or `nrid` is of another version.
    pub fn call(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> Result<Reply, ClientError> {
        let message = Versioned { protocol: PROTOCOL, message: request };
        frame::send(&self.stream, &serde_json::to_vec(&message).map_err(FrameError::from)?, fds)?;
        let (payload, _) = frame::receive(&self.stream)?;
        let reply: Versioned<Reply> = serde_json::from_slice(&payload).map_err(FrameError::from)?;
        match reply.message {
            Reply::OtherVersion { version } => Err(ClientError::OtherVersion(version)),
            other => Ok(other),
        }
    }

    /// Waits until the other end closes the connection; false if the time limit passed before.
    pub fn wait_closed(&self) -> bool {
        loop {
            match frame::receive(&self.stream) {
                Ok(_) => {}
                Err(FrameError::Timeout) => return false,
                Err(_) => return true,
            }
        }
    }
}
