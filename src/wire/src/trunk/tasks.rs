//! The reader and the writer task of a trunk. Both end with the trunk.
//!
//! The reader reads frames from the socket and passes them to their connection; while a connection
//! holds more than [`Limits::incoming`](crate::Limits) unread bytes, the reader does not read the
//! socket, so memory is bounded and the peer is slowed down. (Upstream's multiplexer closes
//! the trunk when 256 frames are unread.) The writer sends what the socket did not take at once.

use crate::trunk::closed::Closed;
use crate::trunk::frame::Decoder;
use crate::trunk::state::{Delivery, TrunkState};
use std::{future::poll_fn, io, sync::Arc, time::Duration};
use tokio::io::{AsyncRead, AsyncReadExt};

/// After a write has failed because the peer closed the socket, the reader has this long to read
/// what the peer sent before.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) async fn read_task<R: AsyncRead + Unpin>(trunk: Arc<TrunkState>, mut read: R) {
    let reason = tokio::select! {
        reason = read_frames(&trunk, &mut read) => reason,
        reason = trunk.wait_closed() => reason,
    };
    trunk.close(reason);
}

async fn read_frames<R: AsyncRead + Unpin>(trunk: &TrunkState, read: &mut R) -> Closed {
    let mut decoder = Decoder::new();
    loop {
        let n = match read.read(decoder.space()).await {
            Ok(n) => n,
            Err(e) if is_closed_by_peer(&e) => 0,
            Err(e) => return Closed::Io(Arc::new(e)),
        };
        if n == 0 {
            return match decoder.pending() {
                0 => Closed::Peer,
                n => Closed::Truncated(n),
            };
        }
        decoder.received(n);
        loop {
            match decoder.next_in_place() {
                Ok(Some((conn, payload))) => loop {
                    match trunk.deliver(conn, payload) {
                        Delivery::Done => break,
                        Delivery::Full => {}
                        Delivery::Ended(reason) => return reason,
                    }
                    trunk.room.notified().await;
                },
                Ok(None) => break,
                Err(e) => return Closed::Frame(e),
            }
        }
    }
}

pub(crate) async fn write_task(trunk: Arc<TrunkState>) {
    let reason = tokio::select! {
        reason = write_unsent(&trunk) => reason,
        reason = trunk.wait_closed() => reason,
    };
    trunk.close(reason);
    // The peer must see the end even if a child process has a duplicate of the socket.
    poll_fn(|cx| trunk.poll_shutdown(cx)).await;
}

async fn write_unsent(trunk: &TrunkState) -> Closed {
    loop {
        match poll_fn(|cx| trunk.poll_drain(cx)).await {
            Ok(()) => trunk.work.notified().await,
            Err(e) if is_closed_by_peer(&e) => {
                // Data of the peer may still be unread. The reader ends the trunk after the last
                // byte; if it does not, this timeout does.
                tokio::time::sleep(DRAIN_TIMEOUT).await;
                return Closed::Peer;
            }
            Err(e) => return Closed::Io(Arc::new(e)),
        }
    }
}

/// Whether the error means that the peer closed the socket, with or without unread data.
fn is_closed_by_peer(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
