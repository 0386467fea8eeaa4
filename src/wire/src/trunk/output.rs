//! The writing half of a trunk's socket, and the bytes that it has not taken yet.

use bytes::{Buf, BytesMut};
use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};
use tokio::io::AsyncWrite;

/// The writing half of a socket.
pub(crate) struct SocketOutput {
    /// `None` after the shutdown.
    write: Option<Pin<Box<dyn AsyncWrite + Send>>>,
    unsent: BytesMut,
    /// Whether written bytes may be in a buffer of `write`.
    unflushed: bool,
    /// Error of [`write_now`](Self::write_now), for the writer task.
    failed: Option<io::Error>,
}

impl SocketOutput {
    pub(crate) fn new(write: impl AsyncWrite + Send + 'static) -> Self {
        let write = Some(Box::pin(write) as Pin<Box<dyn AsyncWrite + Send>>);
        Self { write, unsent: BytesMut::new(), unflushed: false, failed: None }
    }

    /// Whether [`poll_write`](Self::poll_write) has something to do.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() || self.unflushed || self.failed.is_some()
    }

    /// Adds bytes for [`poll_write`](Self::poll_write).
    pub(crate) fn queue(&mut self, bytes: BytesMut) {
        if self.unsent.is_empty() {
            self.unsent = bytes;
        } else {
            self.unsent.extend_from_slice(&bytes);
        }
    }

    /// Writes what the socket takes at once, and queues the rest. Returns `false` if the writer
    /// task must write the rest or report an error. The caller checks that nothing is unsent
    /// before.
    pub(crate) fn write_now(&mut self, mut bytes: &[u8]) -> bool {
        // The writer task replaces this waker when it writes the rest.
        let mut cx = Context::from_waker(Waker::noop());
        if let Some(write) = self.write.as_mut() {
            while !bytes.is_empty() {
                match write.as_mut().poll_write(&mut cx, bytes) {
                    Poll::Ready(Ok(0)) => self.failed = Some(io::ErrorKind::WriteZero.into()),
                    Poll::Ready(Ok(n)) => {
                        bytes = &bytes[n..];
                        self.unflushed = true;
                        continue;
                    }
                    Poll::Ready(Err(e)) => self.failed = Some(e),
                    Poll::Pending => {}
                }
                break;
            }
            if bytes.is_empty()
                && let Poll::Ready(flushed) = write.as_mut().poll_flush(&mut cx)
            {
                self.unflushed = false;
                self.failed = flushed.err();
            }
        }
        self.unsent.extend_from_slice(bytes);
        !self.has_unsent()
    }

    /// Writes all unsent bytes.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(e) = self.failed.take() {
            return Poll::Ready(Err(e));
        }
        let Some(write) = self.write.as_mut() else { return Poll::Ready(Ok(())) };
        while !self.unsent.is_empty() {
            match ready!(write.as_mut().poll_write(cx, &self.unsent))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => self.unsent.advance(n),
            }
            self.unflushed = true;
        }
        self.unsent = BytesMut::new();
        if self.unflushed {
            ready!(write.as_mut().poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Shuts the socket down, and closes this half of it.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(write) = self.write.as_mut() {
            // An error means that the socket is closed already.
            let _ = ready!(write.as_mut().poll_shutdown(cx));
        }
        self.write = None;
        Poll::Ready(())
    }
}

impl fmt::Debug for SocketOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketOutput").field("unsent", &self.unsent.len()).finish_non_exhaustive()
    }
}
