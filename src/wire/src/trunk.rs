//! Several byte streams over one socket.
//!
//! Opening a connection says nothing to the peer: both ends simply know the numbers. What arrives
//! for a connection that is not open yet is kept, within a bound.

use crate::{
    Closed, Conn, ConnId, WireError,
    frame::MAX_PAYLOAD,
    shared::{Shared, read_task, write_task},
};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};

/// How much a trunk keeps in memory, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Unread bytes of one connection from which on the socket is not read. One more frame may come
    /// on top.
    pub incoming: usize,
    /// Unwritten bytes of one connection from which on writing to it waits. One more frame may come
    /// on top.
    pub outgoing: usize,
    /// Bytes for all connections that are not open; more ends the trunk.
    pub unopened: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { incoming: 2 * MAX_PAYLOAD, outgoing: 256 << 10, unopened: MAX_PAYLOAD }
    }
}

/// One socket that carries several connections. Clones are handles to the same trunk; it ends when
/// all handles and connections are dropped.
#[derive(Debug, Clone)]
pub struct Trunk {
    handle: Arc<Handle>,
}

/// Ends the trunk when nobody can use it any more. The tasks hold only [`Shared`].
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
}

impl Trunk {
    /// A trunk over `stream`, which both ends may use at once.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new<S>(stream: S) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        Self::with_limits(stream, Limits::default())
    }

    /// A trunk with other limits.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn with_limits<S>(stream: S, limits: Limits) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let shared = Arc::new(Shared::new(limits));
        let (read, write) = tokio::io::split(stream);
        tokio::spawn(read_task(shared.clone(), read));
        tokio::spawn(write_task(shared.clone(), write));
        Self { handle: Arc::new(Handle { shared }) }
    }

    /// Opens a connection. The peer does not hear of it.
    ///
    /// # Errors
    /// If it is open already, or the trunk has ended.
    pub fn open(&self, id: ConnId) -> Result<Conn, WireError> {
        self.shared().open(id)?;
        Ok(Conn::new(self.clone(), id))
    }

    /// Ends the trunk at once; what is not on the socket yet is lost (see [`Trunk::flush`]).
    /// Connections still give what they have received, then the end of the stream.
    pub fn close(&self) {
        self.shared().close(Closed::Local);
    }

    /// Waits for the end of the trunk and tells why it came. Cancel safe.
    pub async fn closed(&self) -> Closed {
        self.shared().wait_closed().await
    }

    /// Why the trunk has ended, if it has.
    pub fn close_reason(&self) -> Option<Closed> {
        self.shared().close_reason()
    }

    /// Waits until all that was written to connections is on the socket.
    ///
    /// # Errors
    /// If the trunk ends before that.
    pub async fn flush(&self) -> Result<(), WireError> {
        self.shared().flush().await
    }

    pub(crate) fn fail(&self, reason: Closed) {
        self.shared().close(reason);
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close(Closed::Local);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FRAME_HEADER;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// However much the peer writes, neither end holds more than its limit and one frame.
    #[tokio::test]
    async fn memory_is_bounded() {
        const LIMIT: usize = 5000;
        const FRAME: usize = 600;
        let limits = Limits { incoming: LIMIT, outgoing: LIMIT, unopened: 0 };
        let (a, b) = tokio::io::duplex(50);
        let (a, b) = (Trunk::with_limits(a, limits), Trunk::with_limits(b, limits));
        let id = ConnId::PLUGIN;
        let (mut write, mut read) = (a.open(id).unwrap(), b.open(id).unwrap());
        let writer =
            tokio::spawn(async move { while write.write_all(&[1; FRAME]).await.is_ok() {} });
        let held = |t: &Trunk| t.shared().held(id);
        let mut fullest = (0, 0);
        for _ in 0..2000 {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            fullest = (fullest.0.max(held(&b).0), fullest.1.max(held(&a).1));
            read.read_exact(&mut [0; 37]).await.unwrap();
        }
        for held in [fullest.0, fullest.1] {
            assert!((LIMIT..LIMIT + FRAME + FRAME_HEADER).contains(&held), "{fullest:?}");
        }
        b.close();
        writer.await.unwrap();
    }
}
