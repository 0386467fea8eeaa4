//! Calls to the peer that wait for their replies.

use crate::rpc::message::{Message, MessageError, MessageKind, Messages};
use crate::trunk::sink::Sink;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Calls over one connection, and the reader of their replies.
#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    inbound: Messages,
    started: u32,
    /// Calls without a reply, by stream id.
    waiting: BTreeMap<u32, oneshot::Sender<Vec<u8>>>,
    has_ended: bool,
}

/// A call that waits for its reply. Dropping it drops a late reply.
pub(crate) struct WaitingCall {
    calls: Arc<Calls>,
    pub(crate) stream: u32,
    reply: oneshot::Receiver<Vec<u8>>,
}

impl Calls {
    /// Starts a call.
    pub(crate) fn start(self: &Arc<Self>) -> WaitingCall {
        let (sender, reply) = oneshot::channel();
        let mut state = self.lock();
        // Clients use odd stream ids.
        let stream = state.started.wrapping_mul(2).wrapping_add(1);
        state.started = state.started.wrapping_add(1);
        if !state.has_ended {
            state.waiting.insert(stream, sender);
        }
        WaitingCall { calls: self.clone(), stream, reply }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitingCall {
    /// Waits for the response; `None` if the connection has ended.
    pub(crate) async fn response(&mut self) -> Option<Vec<u8>> {
        (&mut self.reply).await.ok()
    }
}

impl Drop for WaitingCall {
    fn drop(&mut self) {
        self.calls.lock().waiting.remove(&self.stream);
    }
}

impl Sink for Calls {
    fn receive(&self, mut bytes: &[u8]) -> Result<(), MessageError> {
        let mut state = self.lock();
        let State { inbound, waiting, .. } = &mut *state;
        while let Some((message, response)) = inbound.next(&mut bytes, expect_response)? {
            if let Some(call) = waiting.remove(&message.stream) {
                // The caller may be gone.
                let _ = call.send(response.to_vec());
            }
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        false
    }

    fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        state.waiting.clear();
        state.inbound = Messages::new();
    }
}

fn expect_response(message: Message) -> Result<(), MessageError> {
    match message.kind {
        MessageKind::Response => Ok(()),
        kind => Err(MessageError::Unexpected(kind)),
    }
}
