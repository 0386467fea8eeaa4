//! State of a trunk, shared by its tasks and its connections.

use crate::error::WireError;
use crate::trunk::closed::Closed;
use crate::trunk::frame::{self, ConnId, MAX_PAYLOAD};
use crate::trunk::limits::Limits;
use bytes::{Buf, Bytes, BytesMut};
use std::{
    collections::BTreeMap,
    io,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};
use tokio::{
    io::ReadBuf,
    sync::{Notify, watch},
};

/// Limit of connections that have data but are not open. NRI uses two connections; without a limit
/// a peer could make the trunk remember four billion.
const MAX_UNOPENED: usize = 16;

/// Capacity of an empty buffer above which it is freed, so that a large message does not stay
/// allocated.
const MAX_IDLE_BUFFER: usize = 64 << 10;

/// The state of a trunk.
#[derive(Debug)]
pub(crate) struct TrunkState {
    limits: Limits,
    state: Mutex<State>,
    closed: watch::Sender<Option<Closed>>,
    /// Notifies the reader task that a connection accepts received data again.
    pub(crate) room: Notify,
    /// Notifies the writer task that a connection has data to send.
    pub(crate) work: Notify,
    /// Notifies [`flush`](Self::flush) that the writer has nothing left to send.
    idle: Notify,
}

#[derive(Debug, Default)]
struct State {
    streams: BTreeMap<ConnId, StreamState>,
    /// Connection whose data was sent last, so that connections alternate.
    last_sent: Option<ConnId>,
    /// Whether the writer task holds bytes that were not yet written to the socket.
    writing: bool,
    closed: Option<Closed>,
}

/// State of one connection.
#[derive(Debug, Default)]
struct StreamState {
    stage: Stage,
    incoming: BytesMut,
    outgoing: BytesMut,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Data was received before the connection was opened.
    #[default]
    Unopened,
    Open,
    /// The connection was dropped; further data is discarded.
    Dropped,
}

/// Result of the delivery of a received frame.
pub(crate) enum Delivery {
    Done,
    /// The connection holds too many unread bytes; the payload waits for room.
    Full(Bytes),
    Ended(Closed),
}

impl TrunkState {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: Mutex::default(),
            closed: watch::Sender::new(None),
            room: Notify::new(),
            work: Notify::new(),
            idle: Notify::new(),
        }
    }

    pub(crate) fn open(&self, id: ConnId) -> Result<(), WireError> {
        let mut state = self.lock();
        if let Some(reason) = &state.closed {
            return Err(WireError::Closed(reason.clone()));
        }
        let stream = state.streams.entry(id).or_default();
        if stream.stage == Stage::Open {
            return Err(WireError::AlreadyOpen(id));
        }
        stream.stage = Stage::Open;
        Ok(())
    }

    pub(crate) fn close_reason(&self) -> Option<Closed> {
        self.lock().closed.clone()
    }

    pub(crate) async fn flush(&self) -> Result<(), WireError> {
        loop {
            let idle = self.idle.notified();
            tokio::pin!(idle);
            idle.as_mut().enable();
            {
                let state = self.lock();
                if let Some(reason) = &state.closed {
                    return Err(WireError::Closed(reason.clone()));
                }
                if !state.writing && state.streams.values().all(|s| s.outgoing.is_empty()) {
                    return Ok(());
                }
            }
            idle.await;
        }
    }

    /// Returns the numbers of unread and of unwritten bytes of a connection.
    #[cfg(test)]
    pub(crate) fn held_bytes(&self, id: ConnId) -> (usize, usize) {
        let state = self.lock();
        state
            .streams
            .get(&id)
            .map_or((0, 0), |stream| (stream.incoming.len(), stream.outgoing.len()))
    }

    /// Locks the state. It is plain data, consistent between any two statements, so that a panic of
    /// another holder does not corrupt it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn close(&self, reason: Closed) {
        let wakers: Vec<Waker> = {
            let mut state = self.lock();
            if state.closed.is_some() {
                return;
            }
            tracing::debug!(%reason, "trunk closed");
            state.closed = Some(reason.clone());
            state
                .streams
                .values_mut()
                .flat_map(|stream| {
                    stream.outgoing = BytesMut::new();
                    [stream.reader.take(), stream.writer.take()]
                })
                .flatten()
                .collect()
        };
        self.closed.send_replace(Some(reason));
        self.idle.notify_waiters();
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) async fn wait_closed(&self) -> Closed {
        let mut closed = self.closed.subscribe();
        // The sender is a field of self, so the channel stays open.
        let reason = closed.wait_for(Option::is_some).await.ok().and_then(|r| r.clone());
        reason.unwrap_or(Closed::Local)
    }

    pub(crate) fn poll_read(
        &self,
        id: ConnId,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.lock();
        let closed = state.closed.clone();
        let stream = state.streams.entry(id).or_default();
        if stream.incoming.is_empty() {
            return match closed {
                Some(reason) => Poll::Ready(reason.to_read_result()),
                None => {
                    stream.reader = Some(cx.waker().clone());
                    Poll::Pending
                }
            };
        }
        let n = buf.remaining().min(stream.incoming.len());
        buf.put_slice(&stream.incoming[..n]);
        stream.incoming.advance(n);
        if stream.incoming.is_empty() && stream.incoming.capacity() > MAX_IDLE_BUFFER {
            stream.incoming = BytesMut::new();
        }
        self.room.notify_one();
        Poll::Ready(Ok(()))
    }

    /// Accepts `data` as one frame, in full if it fits.
    ///
    /// Upstream's multiplexer passes each frame to its reader as a whole, and fails if the reader's
    /// buffer is smaller: therefore a frame must not hold more than one write. It closes the trunk
    /// when many frames are unread: therefore a write must not be split into several frames.
    pub(crate) fn poll_write(
        &self,
        id: ConnId,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.lock();
        if let Some(reason) = &state.closed {
            return Poll::Ready(Err(reason.to_write_error()));
        }
        let stream = state.streams.entry(id).or_default();
        if stream.outgoing.len() >= self.limits.outgoing {
            stream.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let n = data.len().min(MAX_PAYLOAD);
        frame::encode(id, &data[..n], &mut stream.outgoing);
        self.work.notify_one();
        Poll::Ready(Ok(n))
    }

    /// Removes a dropped connection; data that it wrote is still sent.
    pub(crate) fn drop_conn(&self, id: ConnId) {
        if let Some(stream) = self.lock().streams.get_mut(&id) {
            *stream = StreamState {
                stage: Stage::Dropped,
                outgoing: stream.outgoing.split(),
                ..StreamState::default()
            };
        }
        self.room.notify_one();
    }

    /// Appends a received payload to its connection.
    pub(crate) fn deliver(&self, id: ConnId, payload: Bytes) -> Delivery {
        let mut state = self.lock();
        if let Some(reason) = &state.closed {
            return Delivery::Ended(reason.clone());
        }
        if payload.is_empty() {
            return Delivery::Done; // an empty frame does not end the stream
        }
        match state.streams.get(&id).map_or(Stage::Unopened, |s| s.stage) {
            Stage::Dropped => return Delivery::Done,
            Stage::Unopened => {
                let unopened = state.streams.values().filter(|s| s.stage == Stage::Unopened);
                let (count, bytes) = unopened
                    .fold((0, 0), |(count, bytes), s| (count + 1, bytes + s.incoming.len()));
                let bytes = bytes + payload.len();
                if count >= MAX_UNOPENED || bytes > self.limits.unopened {
                    return Delivery::Ended(Closed::Unopened { conn: id, bytes });
                }
            }
            Stage::Open => {}
        }
        let stream = state.streams.entry(id).or_default();
        if stream.stage == Stage::Open && stream.incoming.len() >= self.limits.incoming {
            return Delivery::Full(payload);
        }
        stream.incoming.extend_from_slice(&payload);
        let reader = stream.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        Delivery::Done
    }

    /// Returns the unsent bytes of the next connection, round robin. If there are none, notifies
    /// [`flush`](Self::flush) and returns `None`.
    pub(crate) fn next_batch(&self) -> Option<BytesMut> {
        let mut state = self.lock();
        let with_data =
            |(id, stream): (&ConnId, &StreamState)| (!stream.outgoing.is_empty()).then_some(*id);
        let after = state.last_sent.and_then(|last| {
            state
                .streams
                .range((std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded))
                .find_map(with_data)
        });
        let Some(id) = after.or_else(|| state.streams.iter().find_map(with_data)) else {
            state.writing = false;
            drop(state);
            self.idle.notify_waiters();
            return None;
        };
        state.last_sent = Some(id);
        state.writing = true;
        let stream = state.streams.get_mut(&id)?;
        let batch = std::mem::take(&mut stream.outgoing);
        let writer = stream.writer.take();
        drop(state);
        if let Some(writer) = writer {
            writer.wake();
        }
        Some(batch)
    }
}
