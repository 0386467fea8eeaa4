//! Several byte streams over one socket.
//!
//! Opening a connection says nothing to the peer: both ends simply know the numbers. What arrives for a
//! connection that is not open yet is kept, within a bound.
//!
//! Two tasks serve a trunk. The reader takes frames off the socket and appends them to their connection; when a
//! connection holds more than [`Limits::incoming`] that nobody reads, it stops reading the socket until someone does,
//! so memory is bounded and the peer feels the pressure. (Upstream's multiplexer closes the trunk instead once 256
//! frames wait.) The writer takes what connections were given to write, in turn. Both end with the trunk.

use crate::{
    Closed, Conn, ConnId, Decoder, Frame, WireError,
    frame::{self, FRAME_HEADER, MAX_PAYLOAD},
};
use bytes::{Buf, Bytes, BytesMut};
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    sync::{Notify, watch},
};

/// How much a trunk keeps in memory, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Unread bytes of one connection from which on the socket is not read. One more frame may come on top.
    pub incoming: usize,
    /// Unwritten bytes of one connection from which on writing to it waits. One more frame may come on top.
    pub outgoing: usize,
    /// Bytes for all connections that are not open; more ends the trunk.
    pub unopened: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { incoming: 2 * MAX_PAYLOAD, outgoing: 256 << 10, unopened: MAX_PAYLOAD }
    }
}

/// Connections that may wait to be opened; without a bound a peer could name four billion.
const MAX_UNOPENED: usize = 16;

/// Size of one read from the socket.
const READ_CHUNK: usize = 64 << 10;

/// One socket that carries several connections. Clones are handles to the same trunk; it ends when all
/// handles and connections are dropped.
#[derive(Debug, Clone)]
pub struct Trunk {
    handle: Arc<Handle>,
}

/// Ends the trunk when nobody can use it any more. The tasks hold only [`Shared`].
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limits: Limits,
    state: Mutex<State>,
    closed: watch::Sender<Option<Closed>>,
    /// For the reader task: a connection has room again.
    room: Notify,
    /// For the writer task: a connection has something to write.
    work: Notify,
    /// For [`Trunk::flush`]: the writer has nothing left.
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
        let shared = Arc::new(Shared {
            limits,
            state: Mutex::default(),
            closed: watch::Sender::new(None),
            room: Notify::new(),
            work: Notify::new(),
            idle: Notify::new(),
        });
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
        let mut state = self.shared().lock();
        if let Some(reason) = &state.closed {
            return Err(WireError::Closed(reason.clone()));
        }
        let line = state.lines.entry(id).or_default();
        match line.stage {
            Stage::Open => return Err(WireError::AlreadyOpen(id)),
            Stage::Unopened => line.stage = Stage::Open,
            Stage::Dropped => *line = Line { stage: Stage::Open, ..Line::default() },
        }
        drop(state);
        Ok(Conn::new(self.clone(), id))
    }

    /// Ends the trunk at once; what is not on the socket yet is lost (see [`Trunk::flush`]). Connections
    /// still give what they have received, then the end of the stream.
    pub fn close(&self) {
        self.shared().close(Closed::Local);
    }

    /// Waits for the end of the trunk and tells why it came. Cancel safe.
    pub async fn closed(&self) -> Closed {
        self.shared().wait_closed().await
    }

    /// Why the trunk has ended, if it has.
    pub fn close_reason(&self) -> Option<Closed> {
        self.shared().lock().closed.clone()
    }

    /// Waits until all that was written to connections is on the socket.
    ///
    /// # Errors
    /// If the trunk ends before that.
    pub async fn flush(&self) -> Result<(), WireError> {
        let shared = self.shared();
        loop {
            let idle = shared.idle.notified();
            tokio::pin!(idle);
            idle.as_mut().enable();
            {
                let state = shared.lock();
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

    pub(crate) fn fail(&self, reason: Closed) {
        self.shared().close(reason);
    }

    pub(crate) fn poll_read(
        &self,
        id: ConnId,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let shared = self.shared();
        let mut state = shared.lock();
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
        if line.incoming.is_empty() {
            line.incoming = BytesMut::new(); // a large message must not stay allocated
        }
        shared.room.notify_one();
        Poll::Ready(Ok(()))
    }

    /// Takes `data` as one frame, whole if it fits a frame. That matters: upstream's multiplexer hands a frame out
    /// whole and fails if the reader's buffer is smaller, so a frame must not hold more than its writer wrote at
    /// once, and that frames are few, because it gives up when many wait.
    pub(crate) fn poll_write(
        &self,
        id: ConnId,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let shared = self.shared();
        let mut state = shared.lock();
        if let Some(reason) = &state.closed {
            return Poll::Ready(Err(reason.to_write_error()));
        }
        let line = state.lines.entry(id).or_default();
        if line.outgoing.len() >= shared.limits.outgoing {
            line.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let n = data.len().min(MAX_PAYLOAD);
        frame::encode(id, &data[..n], &mut line.outgoing);
        shared.work.notify_one();
        Poll::Ready(Ok(n))
    }

    /// A dropped connection is forgotten; what it wrote is still sent.
    pub(crate) fn drop_conn(&self, id: ConnId) {
        let shared = self.shared();
        if let Some(line) = shared.lock().lines.get_mut(&id) {
            *line = Line { stage: Stage::Dropped, outgoing: line.outgoing.split(), ..Line::default() };
        }
        shared.room.notify_one();
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close(Closed::Local);
    }
}

/// What to do with a frame that came.
enum Delivery {
    Done,
    /// The connection holds too much: wait for room.
    Full(Bytes),
    Ended(Closed),
}

impl Shared {
    /// The state is plain data that is whole between any two statements, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self, reason: Closed) {
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

    async fn wait_closed(&self) -> Closed {
        let mut closed = self.closed.subscribe();
        // The sender lives in self, so waiting cannot fail.
        let reason = closed.wait_for(Option::is_some).await.ok().and_then(|r| r.clone());
        reason.unwrap_or(Closed::Local)
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
                let (count, bytes) = unopened.fold((0, 0), |(c, b), l| (c + 1, b + l.incoming.len()));
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
            state.lines.range((std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded)).find_map(waiting)
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

async fn read_task<R: AsyncRead + Unpin>(shared: Arc<Shared>, mut read: R) {
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
        match read.read(&mut chunk).await {
            Ok(0) => {
                return match decoder.pending() {
                    0 => Closed::Peer,
                    n => Closed::Truncated(n),
                };
            }
            Ok(n) => decoder.feed(&chunk[..n]),
            Err(e) => return Closed::Io(Arc::new(e)),
        }
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

async fn write_task<W: AsyncWrite + Unpin>(shared: Arc<Shared>, mut write: W) {
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
        debug_assert!(batch.len() > FRAME_HEADER);
        let written = async {
            write.write_all(&batch).await?;
            write.flush().await
        };
        if let Err(e) = written.await {
            return Closed::Io(Arc::new(e));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let writer = tokio::spawn(async move { while write.write_all(&[1; FRAME]).await.is_ok() {} });
        let held = |t: &Trunk| {
            let state = t.shared().lock();
            let line = &state.lines[&id];
            (line.incoming.len(), line.outgoing.len())
        };
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
