//! A connection: one byte stream of a trunk.

use crate::error::WireError;
use crate::trunk::frame::ConnId;
use crate::trunk::handle::Trunk;
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A byte stream of a [`Trunk`]. It keeps the trunk open.
///
/// After the end of the trunk, reading returns the received data and then the end of the stream, or
/// an error if the trunk ended because of a failure; writing fails with `BrokenPipe`. One write
/// becomes one frame. Flushing does not wait for the socket (see [`Trunk::flush`]). The protocol
/// has no half-closed state, so shutting down only flushes.
#[derive(Debug)]
pub struct Conn {
    trunk: Trunk,
    id: ConnId,
}

impl Trunk {
    /// Opens a connection. Nothing is sent to the peer.
    ///
    /// # Errors
    /// If the connection is already open, or the trunk has ended.
    pub fn open(&self, id: ConnId) -> Result<Conn, WireError> {
        self.state().open(id)?;
        Ok(Conn { trunk: self.clone(), id })
    }
}

impl Conn {
    /// Returns the number of the connection.
    pub fn id(&self) -> ConnId {
        self.id
    }

    /// Returns the trunk that carries the connection.
    pub fn trunk(&self) -> &Trunk {
        &self.trunk
    }
}

impl AsyncRead for Conn {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        self.trunk.state().poll_read(self.id, cx, buf)
    }
}

impl AsyncWrite for Conn {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.trunk.state().poll_write(self.id, cx, data)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.trunk.state().drop_conn(self.id);
    }
}
