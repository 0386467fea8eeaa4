//! A plugin that has registered: how it is asked, and what becomes of it when it does not answer.
//!
//! In which order it is asked is the line's business ([`crate::line`]); whether it is still there,
//! its watcher's ([`crate::connect`]): here its end is only declared.

use nri_api::proto::Event;
use nri_api::{EventMask, PluginId};
use nri_wire::CallError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::watch;
use tracing::{info, warn};

use protobuf::MessageDyn;

use crate::AdaptError;
use crate::config::{OnFailure, PluginPolicy};
use crate::permissions::Permit;
use crate::session::{EventRequest, PluginSession};
use crate::station::{Station, Turn};
use crate::status::Record;

/// A timer that is so late tells that this process was stopped, or got no processor.
const STOPPED: Duration = Duration::from_secs(1);

/// A configured plugin.
pub(crate) struct Plugin {
    pub(crate) id: PluginId,
    /// Among plugins of one index, the lower is asked first.
    pub(crate) serial: u64,
    pub(crate) mask: EventMask,
    pub(crate) policy: Policy,
    /// For each call.
    pub(crate) timeout: Duration,
    pub(crate) session: Arc<dyn PluginSession>,
    pub(crate) record: Arc<Record>,
    pub(crate) station: Station,
    /// Held during a call. Validators are called beside the order of stations, and still one call
    /// at a time. Who holds it waits for the plugin only, never for another lock.
    busy: tokio::sync::Mutex<()>,
    /// Events that it knows in their old form only.
    old: Mutex<EventMask>,
    /// Why it is of no more use; the first reason counts.
    ended: watch::Sender<Option<String>>,
    /// Ended on purpose, and not to be launched again.
    retired: AtomicBool,
    /// Its session is cleared up, its program gone.
    over: watch::Sender<bool>,
}

/// How a plugin is treated, for all who have to know; a reload changes it.
#[derive(Clone)]
pub(crate) struct Policy(Arc<RwLock<Arc<PluginPolicy>>>);

impl Policy {
    pub(crate) fn new(policy: PluginPolicy) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(policy))))
    }

    pub(crate) fn get(&self) -> Arc<PluginPolicy> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it is another one now.
    pub(crate) fn set(&self, policy: PluginPolicy) -> bool {
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let other = **held != policy;
        *held = Arc::new(policy);
        other
    }
}

impl Plugin {
    pub(crate) fn new(
        id: PluginId,
        serial: u64,
        mask: EventMask,
        policy: PluginPolicy,
        timeout: Duration,
        session: Arc<dyn PluginSession>,
        record: Arc<Record>,
    ) -> Self {
        Self {
            id,
            serial,
            mask,
            policy: Policy::new(policy),
            timeout,
            session,
            record,
            station: Station::default(),
            busy: tokio::sync::Mutex::default(),
            old: Mutex::default(),
            ended: watch::Sender::new(None),
            retired: AtomicBool::new(false),
            over: watch::Sender::new(false),
        }
    }

    /// Asks the plugin, at its turn. `None` if it could not be asked and its policy is to go on
    /// without it.
    ///
    /// The call goes on, and the turn stays taken, when the caller goes away: the plugin is at
    /// work, and gets nothing else meanwhile.
    pub(crate) async fn ask<R: EventRequest>(
        self: &Arc<Self>,
        turn: Turn,
        request: R,
    ) -> Result<Option<R::Reply>, AdaptError> {
        let subject = request.subject().to_owned();
        match self.call_apart(Some(turn), request).await {
            Ok(reply) => Ok(Some(reply)),
            Err(e) => self.judge(R::EVENT, subject, e).map_or(Ok(None), Err),
        }
    }

    /// Asks the plugin at once, beside the line, and takes no silence for an answer.
    pub(crate) async fn ask_strictly<R: EventRequest>(
        self: &Arc<Self>,
        request: R,
    ) -> Result<R::Reply, AdaptError> {
        let subject = request.subject().to_owned();
        self.call_apart(None, request).await.map_err(|e| self.error(R::EVENT, subject, e))
    }

    /// What it may change.
    pub(crate) fn permit(&self) -> Permit<'_> {
        Permit { plugin: &self.id, policy: self.policy.get() }
    }

    /// Declares that the plugin is of no more use.
    pub(crate) fn end(&self, why: String) {
        self.ended.send_if_modified(|ended| {
            let first = ended.is_none();
            ended.get_or_insert(why);
            first
        });
    }

    /// Whether the plugin was declared ended.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// Waits until the plugin is declared ended; tells why.
    pub(crate) async fn ended(&self) -> String {
        let mut ended = self.ended.subscribe();
        // The sender is in self, so there is always an end to wait for.
        ended.wait_for(Option::is_some).await.ok().and_then(|why| why.clone()).unwrap_or_default()
    }

    /// Ends it on purpose: it is not launched again. Returns when its program is gone.
    pub(crate) async fn retire(&self, why: String) {
        self.retired.store(true, Ordering::Release);
        self.end(why);
        let mut over = self.over.subscribe();
        // The sender is in self.
        let _ = over.wait_for(|over| *over).await;
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    pub(crate) fn set_over(&self) {
        self.over.send_replace(true);
    }

    async fn call_apart<R: EventRequest>(
        self: &Arc<Self>,
        turn: Option<Turn>,
        request: R,
    ) -> Result<R::Reply, CallError> {
        let plugin = self.clone();
        let call = tokio::spawn(async move {
            let _turn = turn;
            let _busy = plugin.busy.lock().await;
            plugin.call(&request).await
        });
        call.await.unwrap_or_else(|e| {
            Err(CallError::Malformed(format!("the call was not completed: {e}")))
        })
    }

    async fn call<R: EventRequest>(&self, request: &R) -> Result<R::Reply, CallError> {
        if self.is_ended() {
            return Err(CallError::Closed(None));
        }
        let begin = tokio::time::Instant::now();
        let result = tokio::time::timeout(self.timeout, self.send(request)).await;
        let result = result.unwrap_or(Err(CallError::Timeout(self.timeout))).and_then(fitting);
        let took = begin.elapsed();
        if matches!(result, Err(CallError::Timeout(_))) && took > self.timeout + STOPPED {
            // An answer may lie there unread. This request goes on without it; the plugin is not to
            // blame.
            warn!(plugin = %self.id, event = ?R::EVENT, ?took, "nrid itself stood still, so that this is no timeout of the plugin");
        } else {
            self.account(R::EVENT, result.as_ref().err());
        }
        result
    }

    /// Sends it in the form that the plugin knows.
    async fn send<R: EventRequest>(&self, request: &R) -> Result<R::Reply, CallError> {
        let session = &*self.session;
        if !self.old(|old| old.contains(R::EVENT)) {
            let result = request.send(session, self.timeout).await;
            if !result.as_ref().is_err_and(CallError::is_unimplemented) {
                return result;
            }
            if request.state_change().is_none() {
                return result;
            }
            info!(plugin = %self.id, event = ?R::EVENT, "the plugin knows this event in its old form only, as a StateChange");
            self.old(|old| *old = old.with(R::EVENT));
        }
        match request.state_change() {
            Some((event, reply)) => session.state_change(self.timeout, &event).await.map(|_| reply),
            None => request.send(session, self.timeout).await,
        }
    }

    /// Keeps the record of failures, and ends what is of no more use.
    fn account(&self, event: Event, error: Option<&CallError>) {
        let timeouts = self.record.set(|status| {
            match error {
                Some(CallError::Timeout(_)) => status.timeouts += 1,
                // Never sent: tells nothing about the plugin.
                Some(CallError::TooLarge { .. }) => {}
                Some(_) | None => status.timeouts = 0,
            }
            // What closed the plugin is not overwritten by those who notice it later.
            if let Some(e) = error.filter(|_| !status.state.is_gone()) {
                status.last_error = Some(format!("{event:?}: {e}"));
            }
            status.timeouts
        });
        match error {
            Some(e @ CallError::Timeout(_)) => {
                warn!(plugin = %self.id, ?event, timeouts, "{e}");
                let limit = self.policy.get().consecutive_timeouts;
                if limit != 0 && timeouts >= limit {
                    self.end(format!("{event:?}: {e}, {timeouts} in a row"));
                }
            }
            Some(e) if e.is_fatal() => self.end(format!("{event:?}: {e}")),
            Some(_) | None => {}
        }
    }

    /// The error of the request, unless it may go on without the plugin.
    fn judge(&self, event: Event, subject: String, error: CallError) -> Option<AdaptError> {
        match error {
            CallError::Timeout(_) | CallError::Closed(_) | CallError::Malformed(_)
                if self.policy.get().on_failure == OnFailure::Ignore =>
            {
                warn!(plugin = %self.id, ?event, %subject, "going on without the plugin: {error}");
                None
            }
            error => Some(self.error(event, subject, error)),
        }
    }

    fn error(&self, event: Event, subject: String, error: CallError) -> AdaptError {
        let plugin = self.id.clone();
        match error {
            CallError::Status { code, message } => {
                AdaptError::Refused { plugin, event, subject, code, message }
            }
            CallError::TooLarge { size } => AdaptError::TooLarge { plugin, event, subject, size },
            source @ (CallError::Timeout(_) | CallError::Closed(_) | CallError::Malformed(_)) => {
                AdaptError::Unavailable { plugin, event, subject, source }
            }
        }
    }

    fn old<T>(&self, f: impl FnOnce(&mut EventMask) -> T) -> T {
        f(&mut self.old.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A reply, unless it is another message: fields of the protocol that come with another type.
/// Protobuf takes them for unknown ones, so that a validator's verdict could get lost. Fields that
/// are unknown by their numbers are a newer protocol's.
fn fitting<R: MessageDyn>(reply: R) -> Result<R, CallError> {
    let descriptor = reply.descriptor_dyn();
    let mut unknown = reply.special_fields_dyn().unknown_fields().iter();
    match unknown.find(|(number, _)| descriptor.field_by_number(*number).is_some()) {
        None => Ok(reply),
        Some((number, _)) => Err(CallError::Malformed(format!(
            "field {number} of {} has another type than the protocol says",
            descriptor.name()
        ))),
    }
}
