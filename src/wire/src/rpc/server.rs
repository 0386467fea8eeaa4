//! Requests of the peer: reads them, has them handled, and replies.
//!
//! At most [`MAX_CALLS`] requests, or [`MAX_CALL_BYTES`] in total, are handled at a time. Further
//! requests wait unread; replies on the other connection are still received meanwhile.

use crate::rpc::envelope;
use crate::rpc::message::{Message, MessageError, MessageKind, Messages};
use crate::rpc::service::{Handlers, SessionLimits, dispatch, failure};
use crate::trunk::closed::Closed;
use crate::trunk::frame::ConnId;
use crate::trunk::sink::Sink;
use crate::trunk::state::TrunkState;
use bytes::{Buf, BytesMut};
use nri_api::MAX_MESSAGE;
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};
use tokio::sync::Notify;
use ttrpc::{Code, MessageHeader, Request, Response, r#async::TtrpcContext, context, proto::Codec};

/// Limit of requests of a peer that are handled at the same time. At the limit, reading pauses
/// until a reply is sent. Plugins request few updates at a time, so only a faulty peer reaches the
/// limit.
const MAX_CALLS: usize = 32;

/// Total size in bytes of the requests of a peer that were not replied to, above which reading
/// pauses. One more request may have been read on top.
const MAX_CALL_BYTES: usize = MAX_MESSAGE;

/// Services over one connection.
pub(crate) struct Server {
    this: Weak<Self>,
    trunk: Arc<TrunkState>,
    conn: ConnId,
    handlers: Handlers,
    limits: Option<SessionLimits>,
    inbound: Mutex<Inbound>,
    /// Wakes those that wait for replies to all requests.
    replied: Notify,
}

#[derive(Default)]
struct Inbound {
    messages: Messages,
    /// Received bytes that wait until fewer requests are handled.
    backlog: BytesMut,
    /// Number of requests that were not replied to.
    calls: usize,
    /// Size of these requests in bytes.
    call_bytes: usize,
}

impl Server {
    pub(crate) fn new(
        trunk: Arc<TrunkState>,
        conn: ConnId,
        handlers: Handlers,
        limits: Option<SessionLimits>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            trunk,
            conn,
            handlers,
            limits,
            inbound: Mutex::default(),
            replied: Notify::new(),
        })
    }

    /// Waits until all received requests are replied to. Never returns if the trunk ends before.
    pub(crate) async fn replied(&self) {
        loop {
            let replied = self.replied.notified();
            if self.lock().calls == 0 {
                return;
            }
            replied.await;
        }
    }

    /// Reads requests and starts to handle them, until a limit is reached. Returns the bytes that
    /// were not read.
    fn read<'a>(
        &self,
        inbound: &mut Inbound,
        mut bytes: &'a [u8],
    ) -> Result<&'a [u8], MessageError> {
        let Inbound { messages, calls, call_bytes, .. } = inbound;
        while !(messages.is_at_boundary() && (*calls >= MAX_CALLS || *call_bytes >= MAX_CALL_BYTES))
        {
            let Some((message, payload)) = messages.next(&mut bytes, expect_request)? else {
                break;
            };
            *calls += 1;
            *call_bytes += message.size;
            let Some(this) = self.this.upgrade() else { break };
            let payload = payload.to_vec();
            tokio::spawn(async move {
                let response = this.handle(message, payload).await;
                this.reply(message, &response).await;
            });
        }
        Ok(bytes)
    }

    /// Handles a request. After the peer's deadline the reply is an error, and the handler
    /// continues.
    async fn handle(&self, message: Message, payload: Vec<u8>) -> Response {
        let invalid = |text: &str| failure(Code::INVALID_ARGUMENT, text.to_owned());
        if message.stream.is_multiple_of(2) {
            return invalid("stream id must be odd");
        }
        if message.kind == MessageKind::Data {
            return invalid("Stream is no longer active");
        }
        let mh = MessageHeader {
            length: payload.len() as u32, // at most MAX_MESSAGE
            stream_id: message.stream,
            type_: message.kind as u8,
            flags: 0,
        };
        let request = match Request::decode(payload) {
            Ok(request) => request,
            Err(e) => return invalid(&e.to_string()),
        };
        let handler = match self.handlers.find(&request.service, &request.method) {
            Ok(handler) => handler,
            Err(reply) => return reply,
        };
        let timeout_nano = request.timeout_nano;
        let ctx = TtrpcContext {
            mh,
            metadata: context::from_pb(&request.metadata),
            timeout_nano,
            ..TtrpcContext::default()
        };
        let handled = dispatch(handler, self.limits.clone(), ctx, request);
        match u64::try_from(timeout_nano) {
            Ok(nanos) if nanos > 0 => {
                let handled = tokio::time::timeout(Duration::from_nanos(nanos), handled).await;
                handled.unwrap_or_else(|_| failure(Code::DEADLINE_EXCEEDED, "timeout".into()))
            }
            _ => handled.await,
        }
    }

    /// Sends a reply, and reads the requests that waited for it.
    async fn reply(&self, message: Message, response: &Response) {
        let encoded = response.encode().unwrap_or_default(); // encoding in memory does not fail
        let frames = envelope::response(self.conn, message.stream, &encoded);
        if self.trunk.send(self.conn, &frames).await.is_err() {
            return; // the trunk has ended
        }
        let read = {
            let mut inbound = self.lock();
            inbound.calls -= 1;
            inbound.call_bytes -= message.size;
            if inbound.calls == 0 {
                self.replied.notify_waiters();
            }
            if inbound.backlog.is_empty() {
                return;
            }
            let mut backlog = std::mem::take(&mut inbound.backlog);
            self.read(&mut inbound, &backlog).map(<[u8]>::len).map(|left| {
                backlog.advance(backlog.len() - left);
                inbound.backlog = backlog;
            })
        };
        match read {
            Ok(()) => self.trunk.room.notify_one(),
            Err(source) => self.trunk.close(Closed::Message { conn: self.conn, source }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inbound> {
        self.inbound.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Server {
    fn receive(&self, bytes: &[u8]) -> Result<(), MessageError> {
        let mut inbound = self.lock();
        let rest = if inbound.backlog.is_empty() { self.read(&mut inbound, bytes)? } else { bytes };
        inbound.backlog.extend_from_slice(rest);
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.lock().backlog.len() >= self.trunk.limits.incoming
    }

    fn end(&self) {
        let mut inbound = self.lock();
        inbound.backlog = BytesMut::new();
        inbound.messages = Messages::new();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("conn", &self.conn).finish_non_exhaustive()
    }
}

fn expect_request(message: Message) -> Result<(), MessageError> {
    match message.kind {
        // `handle` replies to Data with an error, so Data counts as a request.
        MessageKind::Request | MessageKind::Data => Ok(()),
        kind => Err(MessageError::Unexpected(kind)),
    }
}
