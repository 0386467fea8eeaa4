//! One byte stream of a trunk.

use crate::{ConnId, Trunk};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// One byte stream of a [`Trunk`], which lives at least as long.
///
/// When the trunk ends, reading gives what has arrived and then the end of the stream (or an error,
/// if the end was a failure); writing fails with `BrokenPipe`. One write becomes one frame.
/// Flushing does not wait for the socket: the trunk's writer sends without being asked; see
/// [`Trunk::flush`]. The protocol has no half-closed state, so shutting down does nothing more than
/// flushing.
#[derive(Debug)]
pub struct Conn {
    trunk: Trunk,
    id: ConnId,
}

impl Conn {
    pub(crate) fn new(trunk: Trunk, id: ConnId) -> Self {
        Self { trunk, id }
    }

    /// Its number.
    pub fn id(&self) -> ConnId {
        self.id
    }

    /// The trunk that carries it.
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
        self.trunk.shared().poll_read(self.id, cx, buf)
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
        self.trunk.shared().poll_write(self.id, cx, data)
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
        self.trunk.shared().drop_conn(self.id);
    }
}
