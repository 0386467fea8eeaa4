//! Guard of a connection: checks the headers that a peer sends before ttrpc reads them.
//!
//! The ttrpc library accepts any header: it would wait for 4 GiB if a header says so, and start a
//! task for each of a million requests. The guard ends the trunk at the first invalid
//! header, and admits at most [`MAX_CALLS`] requests or [`MAX_CALL_BYTES`] at a time. It does not
//! check the contents of messages.

use crate::rpc::message::{Message, MessageError, MessageKind, Messages};
use crate::trunk::closed::Closed;
use crate::trunk::conn::Conn;
use nri_api::MAX_MESSAGE;
use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Limit of requests of a peer that are handled at the same time. At the limit, reading pauses
/// until a reply is sent. Plugins request few updates at a time, so only a faulty peer reaches the
/// limit.
const MAX_CALLS: usize = 32;

/// Total size in bytes of the requests of a peer that were not replied to, above which reading
/// pauses. One more request may have been read on top.
const MAX_CALL_BYTES: usize = MAX_MESSAGE;

/// Role of this end in the calls of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// A connection for ttrpc. Dropping it ends the trunk, since an NRI session needs both connections.
#[derive(Debug)]
pub(crate) struct Guard {
    conn: Conn,
    side: Side,
    inbound: Messages,
    outbound: Messages,
    /// Sizes of the requests that were read but not yet replied to, the oldest first.
    calls: VecDeque<usize>,
    /// Waker of the reader while the limit is reached.
    paused: Option<Waker>,
}

impl Guard {
    pub(crate) fn new(conn: Conn, side: Side) -> Self {
        Self {
            conn,
            side,
            inbound: Messages::new(),
            outbound: Messages::new(),
            calls: VecDeque::new(),
            paused: None,
        }
    }
}

/// Whether a peer has as many requests without a reply as it may have. Replies are counted for the
/// oldest request, which is exact as soon as all are replied to.
fn is_full(calls: &VecDeque<usize>) -> bool {
    calls.len() >= MAX_CALLS || calls.iter().sum::<usize>() >= MAX_CALL_BYTES
}

impl AsyncRead for Guard {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if is_full(&this.calls) && this.inbound.is_at_boundary() {
            this.paused = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let n = this.inbound.remaining().min(buf.remaining());
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(n));
        ready!(Pin::new(&mut this.conn).poll_read(cx, &mut part))?;
        let bytes = part.filled();
        let (side, calls) = (this.side, &mut this.calls);
        let checked = this.inbound.feed(bytes, |message| {
            match (side, message.kind) {
                (Side::Client, MessageKind::Response) => {}
                // The reply to Data is an error, so it counts as a request.
                (Side::Server, MessageKind::Request | MessageKind::Data) => {
                    calls.push_back(message.size);
                }
                (_, kind) => return Err(MessageError::Unexpected(kind)),
            }
            Ok(())
        });
        let filled = bytes.len();
        if let Err(source) = checked {
            this.conn
                .trunk()
                .fail(Closed::Message { conn: this.conn.id(), source: source.clone() });
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, source)));
        }
        buf.advance(filled);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Guard {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let n = ready!(Pin::new(&mut this.conn).poll_write(cx, data))?;
        let (side, calls) = (this.side, &mut this.calls);
        let checked = this.outbound.feed(&data[..n], |message: Message| {
            if side == Side::Server && message.kind == MessageKind::Response {
                calls.pop_front();
            }
            Ok(())
        });
        if let Some(reader) = this.paused.take_if(|_| !is_full(&this.calls)) {
            reader.wake();
        }
        Poll::Ready(checked.map(|()| n).map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e)))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.conn).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.conn).poll_shutdown(cx)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.conn.trunk().fail(Closed::Ended(self.conn.id()));
    }
}
