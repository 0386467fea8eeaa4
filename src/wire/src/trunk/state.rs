//! State of a trunk, shared by its tasks, its connections and the services over it.
//!
//! A task that has data writes it to the socket at once. What the socket does not take is queued
//! for the writer task ([`crate::trunk::tasks`]).

use crate::error::WireError;
use crate::trunk::closed::Closed;
use crate::trunk::frame::{self, ConnId, MAX_PAYLOAD};
use crate::trunk::limits::Limits;
use crate::trunk::output::SocketOutput;
use crate::trunk::sink::Sink;
use bytes::{Buf, BytesMut};
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker, ready},
};
use tokio::{
    io::{AsyncWrite, ReadBuf},
    sync::{Notify, watch},
};

/// Limit of connections that have data but are not open. NRI uses two connections; without a limit
/// a peer could make the trunk keep the state of four billion connections.
const MAX_UNOPENED: usize = 16;

/// Capacity of an empty buffer above which it is freed, so that a large message does not stay
/// allocated.
const MAX_IDLE_BUFFER: usize = 64 << 10;

/// The state of a trunk.
#[derive(Debug)]
pub(crate) struct TrunkState {
    pub(crate) limits: Limits,
    state: Mutex<State>,
    closed: watch::Sender<Option<Closed>>,
    /// Notifies the reader task that a connection accepts received data again.
    pub(crate) room: Notify,
    /// Notifies the writer task that there is data to send.
    pub(crate) work: Notify,
    /// Notifies [`flush`](Self::flush) that nothing is left to send.
    idle: Notify,
    /// Notifies [`send`](Self::send) that unsent data was taken from a connection.
    sent: Notify,
}

#[derive(Debug)]
struct State {
    streams: BTreeMap<ConnId, StreamState>,
    /// Connection whose data was sent last, so that connections alternate.
    last_sent: Option<ConnId>,
    output: SocketOutput,
    closed: Option<Closed>,
}

/// State of one connection.
#[derive(Debug, Default)]
struct StreamState {
    stage: Stage,
    /// Receiver of the data, instead of `incoming`.
    sink: Option<Arc<dyn Sink>>,
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
    Full,
    Ended(Closed),
}

impl TrunkState {
    pub(crate) fn new(limits: Limits, write: impl AsyncWrite + Send + 'static) -> Self {
        let state = State {
            streams: BTreeMap::new(),
            last_sent: None,
            output: SocketOutput::new(write),
            closed: None,
        };
        Self {
            limits,
            state: Mutex::new(state),
            closed: watch::Sender::new(None),
            room: Notify::new(),
            work: Notify::new(),
            idle: Notify::new(),
            sent: Notify::new(),
        }
    }

    pub(crate) fn open(&self, id: ConnId) -> Result<(), WireError> {
        self.lock().open(id).map(|_| ())
    }

    /// Opens a connection whose data is passed to `sink` as it is received.
    pub(crate) fn attach(&self, id: ConnId, sink: Arc<dyn Sink>) -> Result<(), WireError> {
        let mut state = self.lock();
        let stream = state.open(id)?;
        let early = std::mem::take(&mut stream.incoming);
        stream.sink = Some(sink.clone());
        // The lock is held, so that data that is received now comes after the early data.
        let received = sink.receive(&early);
        drop(state);
        received.map_err(|source| {
            let reason = Closed::Message { conn: id, source };
            self.close(reason.clone());
            WireError::Closed(reason)
        })
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
                if !state.has_unsent() {
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

    /// Locks the state, even if another holder of the lock panicked: the state is consistent
    /// between any two statements, so a panic does not corrupt it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn close(&self, reason: Closed) {
        let (wakers, sinks) = {
            let mut state = self.lock();
            if state.closed.is_some() {
                return;
            }
            tracing::debug!(%reason, "trunk closed");
            state.closed = Some(reason.clone());
            let (mut wakers, mut sinks) = (Vec::new(), Vec::new());
            for stream in state.streams.values_mut() {
                stream.outgoing = BytesMut::new();
                wakers.extend([stream.reader.take(), stream.writer.take()]);
                // A server holds this state, which holds the server: without `take`, neither
                // would be freed.
                sinks.extend(stream.sink.take());
            }
            (wakers, sinks)
        };
        self.closed.send_replace(Some(reason));
        self.idle.notify_waiters();
        self.sent.notify_waiters();
        wakers.into_iter().flatten().for_each(Waker::wake);
        sinks.iter().for_each(|sink| sink.end());
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

    /// Sends complete frames: writes them to the socket, or queues what the socket does not take.
    /// Waits while the connection has more unsent bytes than the limit. The frames are sent as a
    /// whole or, if the future is dropped or fails, not at all.
    pub(crate) async fn send(&self, id: ConnId, frames: &[u8]) -> Result<(), Closed> {
        if self.try_send(id, frames)? {
            return Ok(());
        }
        loop {
            let sent = self.sent.notified();
            tokio::pin!(sent);
            sent.as_mut().enable();
            if self.try_send(id, frames)? {
                return Ok(());
            }
            sent.await;
        }
    }

    /// Sends or queues frames; returns `false` if too many bytes are unsent.
    fn try_send(&self, id: ConnId, frames: &[u8]) -> Result<bool, Closed> {
        let mut state = self.lock();
        if let Some(reason) = &state.closed {
            return Err(reason.clone());
        }
        if !state.has_unsent() {
            if !state.output.write_now(frames) {
                self.work.notify_one();
            }
            return Ok(true);
        }
        let stream = state.streams.entry(id).or_default();
        if stream.outgoing.len() >= self.limits.outgoing {
            return Ok(false);
        }
        stream.outgoing.extend_from_slice(frames);
        self.work.notify_one();
        Ok(true)
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

    /// Passes a received payload to its connection.
    pub(crate) fn deliver(&self, id: ConnId, payload: &[u8]) -> Delivery {
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
        if let Some(sink) = stream.sink.clone() {
            drop(state);
            if sink.is_full() {
                return Delivery::Full;
            }
            return match sink.receive(payload) {
                Ok(()) => Delivery::Done,
                Err(source) => Delivery::Ended(Closed::Message { conn: id, source }),
            };
        }
        if stream.stage == Stage::Open && stream.incoming.len() >= self.limits.incoming {
            return Delivery::Full;
        }
        stream.incoming.extend_from_slice(payload);
        let reader = stream.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        Delivery::Done
    }

    /// Writes all unsent bytes of the connections to the socket, round robin.
    pub(crate) fn poll_drain(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.lock();
        loop {
            ready!(state.output.poll_write(cx))?;
            let Some((batch, writer)) = state.next_batch() else { break };
            state.output.queue(batch);
            writer.into_iter().for_each(Waker::wake);
            self.sent.notify_waiters();
        }
        drop(state);
        self.idle.notify_waiters();
        Poll::Ready(Ok(()))
    }

    /// Shuts down and closes this side of the socket.
    pub(crate) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.lock().output.poll_shutdown(cx)
    }
}

impl State {
    fn open(&mut self, id: ConnId) -> Result<&mut StreamState, WireError> {
        if let Some(reason) = &self.closed {
            return Err(WireError::Closed(reason.clone()));
        }
        let stream = self.streams.entry(id).or_default();
        if stream.stage == Stage::Open {
            return Err(WireError::AlreadyOpen(id));
        }
        stream.stage = Stage::Open;
        Ok(stream)
    }

    fn has_unsent(&self) -> bool {
        self.output.has_unsent() || self.streams.values().any(|s| !s.outgoing.is_empty())
    }

    /// Takes the unsent bytes of the next connection, round robin, and its writer.
    fn next_batch(&mut self) -> Option<(BytesMut, Option<Waker>)> {
        let with_data =
            |(id, stream): (&ConnId, &StreamState)| (!stream.outgoing.is_empty()).then_some(*id);
        let after = self.last_sent.and_then(|last| {
            self.streams
                .range((std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded))
                .find_map(with_data)
        });
        let id = after.or_else(|| self.streams.iter().find_map(with_data))?;
        self.last_sent = Some(id);
        let stream = self.streams.get_mut(&id)?;
        Some((std::mem::take(&mut stream.outgoing), stream.writer.take()))
    }
}
