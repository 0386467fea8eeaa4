//! The trunk: several byte streams over one socket.
//!
//! Opening a connection ([`Trunk::open`] in [`crate::trunk::conn`]) sends nothing, since the
//! numbers of the connections are fixed. Data for a connection that is not open yet is kept, up to
//! a limit.

use crate::error::WireError;
use crate::trunk::closed::Closed;
use crate::trunk::limits::Limits;
use crate::trunk::state::TrunkState;
use crate::trunk::tasks::{read_task, write_task};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};

/// A socket that carries several connections. Clones are handles of the same trunk, which ends when
/// all handles and connections are dropped.
#[derive(Debug, Clone)]
pub struct Trunk {
    handle: Arc<Handle>,
}

/// Handle that ends the trunk when it is dropped. Reader and writer task hold only the
/// [`TrunkState`], so they do not keep the trunk open.
#[derive(Debug)]
struct Handle {
    state: Arc<TrunkState>,
}

impl Trunk {
    /// Creates a trunk over `stream`.
    ///
    /// # Panics
    /// If called outside of a tokio runtime.
    pub fn new<S>(stream: S) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        Self::with_limits(stream, Limits::default())
    }

    /// Creates a trunk with other limits.
    ///
    /// # Panics
    /// If called outside of a tokio runtime.
    pub fn with_limits<S>(stream: S, limits: Limits) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (read, write) = tokio::io::split(stream);
        let state = Arc::new(TrunkState::new(limits, write));
        tokio::spawn(read_task(state.clone(), read));
        tokio::spawn(write_task(state.clone()));
        Self { handle: Arc::new(Handle { state }) }
    }

    /// Ends the trunk at once; data that was not yet written to the socket is lost (see
    /// [`Trunk::flush`]). Received data can still be read from the connections.
    pub fn close(&self) {
        self.state().close(Closed::Local);
    }

    /// Waits for the end of the trunk, and returns its cause. Cancel safe.
    pub async fn closed(&self) -> Closed {
        self.state().wait_closed().await
    }

    /// Returns why the trunk has ended, if it has.
    pub fn close_reason(&self) -> Option<Closed> {
        self.state().close_reason()
    }

    /// Waits until all data of the connections is written to the socket.
    ///
    /// # Errors
    /// If the trunk ends first.
    pub async fn flush(&self) -> Result<(), WireError> {
        self.state().flush().await
    }

    pub(crate) fn state(&self) -> &Arc<TrunkState> {
        &self.handle.state
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.state.close(Closed::Local);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trunk::frame::{ConnId, FRAME_HEADER};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn neither_end_holds_more_than_its_limit_and_one_frame() {
        const LIMIT: usize = 5000;
        const FRAME: usize = 600;
        let limits = Limits { incoming: LIMIT, outgoing: LIMIT, unopened: 0 };
        let (a, b) = tokio::io::duplex(50);
        let (a, b) = (Trunk::with_limits(a, limits), Trunk::with_limits(b, limits));
        let id = ConnId::PLUGIN;
        let (mut write, mut read) = (a.open(id).unwrap(), b.open(id).unwrap());
        let writer =
            tokio::spawn(async move { while write.write_all(&[1; FRAME]).await.is_ok() {} });
        let held_bytes = |t: &Trunk| t.state().held_bytes(id);
        // Reads less than the writer writes, so that the buffers of both ends fill.
        let mut fullest = (0, 0);
        for _ in 0..2000 {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            fullest = (fullest.0.max(held_bytes(&b).0), fullest.1.max(held_bytes(&a).1));
            read.read_exact(&mut [0; 37]).await.unwrap();
        }
        for held in [fullest.0, fullest.1] {
            assert!((LIMIT..LIMIT + FRAME + FRAME_HEADER).contains(&held), "{fullest:?}");
        }
        b.close();
        writer.await.unwrap();
    }
}
