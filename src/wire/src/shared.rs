//! What the tasks of a trunk and its connections share, and the tasks.
//!
//! Two tasks serve a trunk. The reader takes frames off the socket and appends them to their
//! connection; when a connection holds more than [`Limits::incoming`] that nobody reads, it stops
//! reading the socket until someone does, so memory is bounded and the peer feels the pressure.
//! (Upstream's multiplexer closes the trunk instead once 256 frames wait.) The writer takes what
//! connections were given to write, in turn. Both end with the trunk.

use crate::{
    Closed, ConnId, Decoder, Frame, Limits, WireError,
    frame::{self, MAX_PAYLOAD},
};
use bytes::{Buf, Bytes, BytesMut};
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    sync::{Notify, watch},
};

/// Connections that may wait to be opened; without a bound a peer could name four billion.
const MAX_UNOPENED: usize = 16;

/// Size of one read from the socket.
const READ_CHUNK: usize = 64 << 10;

/// How long the reader may take, after the peer has gone, to read what it left.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The state of a trunk.
#[derive(Debug)]
pub(crate) struct Shared {
    limits: Limits,
    state: Mutex<State>,
    closed: watch::Sender<Option<Closed>>,
    /// For the reader task: a connection has room again.
    room: Notify,
    /// For the writer task: a connection has something to write.
    work: Notify,
    /// For [`flush`](Self::flush): the writer has nothing left.
    idle: Notify,
}

#[derive(Debug, Default)]
struct State {
    lines: BTreeMap<ConnId, Line>,
    /// Who wrote last, so that connections take turns.
    last: Option<ConnId>,
    /// The writer task holds bytes that are not on the socket yet.
    writing: bool,
    closed: Option<Closed>,
}

/// What a trunk knows of one connection.
#[derive(Debug, Default)]
struct Line {
    stage: Stage,
    incoming: BytesMut,
    outgoing: BytesMut,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Data came before the opening.
    #[default]
    Unopened,
    Open,
    /// Was open; what still comes for it is dropped.
    Dropped,
}

/// What to do with a frame that came.
enum Delivery {
    Done,
    /// The connection holds too much: wait for room.
    Full(Bytes),
    Ended(Closed),
}

impl Shared {
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
        let line = state.lines.entry(id).or_default();
        if line.stage == Stage::Open {
            return Err(WireError::AlreadyOpen(id));
        }
        line.stage = Stage::Open;
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
                if !state.writing && state.lines.values().all(|l| l.outgoing.is_empty()) {
                    return Ok(());
                }
            }
            idle.await;
        }
    }

    /// Unread and unwritten bytes of a connection.
    #[cfg(test)]
    pub(crate) fn held(&self, id: ConnId) -> (usize, usize) {
        let state = self.lock();
        state.lines.get(&id).map_or((0, 0), |line| (line.incoming.len(), line.outgoing.len()))
    }

    /// The state is plain data that is whole between any two statements, so a panic elsewhere does
    /// not spoil it.
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
                .lines
                .values_mut()
                .flat_map(|l| {
                    l.outgoing = BytesMut::new();
                    [l.reader.take(), l.writer.take()]
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
        // The sender lives in self, so waiting cannot fail.
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
        let line = state.lines.entry(id).or_default();
        if line.incoming.is_empty() {
            return match closed {
                Some(reason) => Poll::Ready(reason.to_read_error()),
                None => {
                    line.reader = Some(cx.waker().clone());
                    Poll::Pending
                }
            };
        }
        let n = buf.remaining().min(line.incoming.len());
        buf.put_slice(&line.incoming[..n]);
        line.incoming.advance(n);
        if line.incoming.is_empty() && line.incoming.capacity() > READ_CHUNK {
            line.incoming = BytesMut::new(); // a large message must not stay allocated
        }
        self.room.notify_one();
        Poll::Ready(Ok(()))
    }

    /// Takes `data` as one frame, whole if it fits a frame. That matters: upstream's multiplexer
    /// hands a frame out whole and fails if the reader's buffer is smaller, so a frame must not
    /// hold more than its writer wrote at once, and that frames are few, because it gives up when
    /// many wait.
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
        let line = state.lines.entry(id).or_default();
        if line.outgoing.len() >= self.limits.outgoing {
            line.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let n = data.len().min(MAX_PAYLOAD);
        frame::encode(id, &data[..n], &mut line.outgoing);
        self.work.notify_one();
        Poll::Ready(Ok(n))
    }

    /// A dropped connection is forgotten; what it wrote is still sent.
    pub(crate) fn drop_conn(&self, id: ConnId) {
        if let Some(line) = self.lock().lines.get_mut(&id) {
            *line =
                Line { stage: Stage::Dropped, outgoing: line.outgoing.split(), ..Line::default() };
        }
        self.room.notify_one();
    }

    fn deliver(&self, id: ConnId, payload: Bytes) -> Delivery {
        let mut state = self.lock();
        if let Some(reason) = &state.closed {
            return Delivery::Ended(reason.clone());
        }
        if payload.is_empty() {
            return Delivery::Done; // nothing to read, and not the end of the stream either
        }
        match state.lines.get(&id).map_or(Stage::Unopened, |l| l.stage) {
            Stage::Dropped => return Delivery::Done,
            Stage::Unopened => {
                let unopened = state.lines.values().filter(|l| l.stage == Stage::Unopened);
                let (count, bytes) =
                    unopened.fold((0, 0), |(c, b), l| (c + 1, b + l.incoming.len()));
                let bytes = bytes + payload.len();
                if count >= MAX_UNOPENED || bytes > self.limits.unopened {
                    return Delivery::Ended(Closed::Unopened { conn: id, bytes });
                }
            }
            Stage::Open => {}
        }
        let line = state.lines.entry(id).or_default();
        if line.stage == Stage::Open && line.incoming.len() >= self.limits.incoming {
            return Delivery::Full(payload);
        }
        line.incoming.extend_from_slice(&payload);
        let reader = line.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        Delivery::Done
    }

    /// All that the connection whose turn it is has to write.
    fn next_batch(&self) -> Option<BytesMut> {
        let mut state = self.lock();
        let waiting = |(id, l): (&ConnId, &Line)| (!l.outgoing.is_empty()).then_some(*id);
        let after = state.last.and_then(|last| {
            state
                .lines
                .range((std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded))
                .find_map(waiting)
        });
        let Some(id) = after.or_else(|| state.lines.iter().find_map(waiting)) else {
            state.writing = false;
            drop(state);
            self.idle.notify_waiters();
            return None;
        };
        state.last = Some(id);
        state.writing = true;
        let line = state.lines.get_mut(&id)?;
        let batch = std::mem::take(&mut line.outgoing);
        let writer = line.writer.take();
        drop(state);
        if let Some(writer) = writer {
            writer.wake();
        }
        Some(batch)
    }
}

pub(crate) async fn read_task<R: AsyncRead + Unpin>(shared: Arc<Shared>, mut read: R) {
    let reason = tokio::select! {
        reason = read_frames(&shared, &mut read) => reason,
        reason = shared.wait_closed() => reason,
    };
    shared.close(reason);
}

async fn read_frames<R: AsyncRead + Unpin>(shared: &Shared, read: &mut R) -> Closed {
    let mut decoder = Decoder::new();
    let mut chunk = vec![0; READ_CHUNK];
    loop {
        let n = match read.read(&mut chunk).await {
            Ok(n) => n,
            Err(e) if peer_is_gone(&e) => 0,
            Err(e) => return Closed::Io(Arc::new(e)),
        };
        if n == 0 {
            return match decoder.pending() {
                0 => Closed::Peer,
                n => Closed::Truncated(n),
            };
        }
        decoder.feed(&chunk[..n]);
        loop {
            match decoder.next_frame() {
                Ok(Some(Frame { conn, mut payload })) => loop {
                    match shared.deliver(conn, payload) {
                        Delivery::Done => break,
                        Delivery::Full(again) => payload = again,
                        Delivery::Ended(reason) => return reason,
                    }
                    shared.room.notified().await;
                },
                Ok(None) => break,
                Err(e) => return Closed::Frame(e),
            }
        }
    }
}

pub(crate) async fn write_task<W: AsyncWrite + Unpin>(shared: Arc<Shared>, mut write: W) {
    let reason = tokio::select! {
        reason = write_frames(&shared, &mut write) => reason,
        reason = shared.wait_closed() => reason,
    };
    shared.close(reason);
    // The peer must see the end even if a child process still holds a duplicate of the socket.
    write.shutdown().await.ok();
}

async fn write_frames<W: AsyncWrite + Unpin>(shared: &Shared, write: &mut W) -> Closed {
    loop {
        let Some(batch) = shared.next_batch() else {
            shared.work.notified().await;
            continue;
        };
        let written = async {
            write.write_all(&batch).await?;
            write.flush().await
        };
        match written.await {
            Ok(()) => {}
            Err(e) if peer_is_gone(&e) => {
                // Its last words may still be in the socket: the reader ends the trunk when it has
                // them all.
                tokio::time::sleep(LAST_WORDS).await;
                return Closed::Peer;
            }
            Err(e) => return Closed::Io(Arc::new(e)),
        }
    }
}

/// A socket says so when it is written to after the peer closed it, or the peer closed it without
/// reading all.
fn peer_is_gone(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
