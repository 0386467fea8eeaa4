//! A registered plugin: calls to it, timeouts, and the failures that close it.
//!
//! The pipeline ([`crate::order::pipeline`]) decides the order of calls. Closing a plugin only
//! marks it here; its session task ([`crate::session::admission`]) disconnects it.

use nri_api::proto::{
    Empty, Event, ValidateContainerAdjustmentRequest, ValidateContainerAdjustmentResponse,
};
use nri_api::{EventMask, PluginId};
use nri_wire::{CallError, PluginClient, TraceContext};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use crate::error::{AdaptError, NoReply};
use crate::plugin::breaker::Breaker;
use crate::plugin::calls::{EventRequest, check_types};
use crate::plugin::queue::{PluginQueue, QueuePermit};
use crate::plugin::registrant::Registrant;
use crate::plugin::request::EncodedRequest;
use crate::plugin::statistics::{CallEnd, PluginCounters, is_refusal};
use crate::plugin::status::{PluginOrigin, StatusRecord};
use crate::plugin::trace::{RequestTrace, current_trace};
use crate::plugin::uncancelled::Uncancelled;
use crate::plugin::undelivered::Undelivered;
use crate::policy::failure_policy::FailureHandling;
use crate::policy::plugin_policy::{OnFailure, PluginPolicy, SharedPolicy};
use crate::policy::reply_check::ReplyCheck;

/// Limit of the delay of a timer; a longer delay means that this process itself was stopped or got
/// no CPU time. Far more than scheduling delays on a busy node, and less than a usual timeout.
const MAX_TIMER_DELAY: Duration = Duration::from_secs(1);

/// Time that a request whose plugin has ended, and that fails because of it, waits for the exit
/// status of the plugin's program, which explains more than the closed connection. Usually the
/// program is reaped within milliseconds.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// A configured plugin.
pub(crate) struct Plugin {
    pub(crate) id: PluginId,
    /// Serial number. Of plugins with the same index, the plugin with the lower number comes first.
    pub(crate) serial: u64,
    pub(crate) mask: EventMask,
    pub(crate) policy: SharedPolicy,
    /// Time limit of each call.
    pub(crate) timeout: Duration,
    pub(crate) session: PluginClient,
    pub(crate) record: Arc<StatusRecord>,
    pub(crate) counters: Arc<PluginCounters>,
    pub(crate) registrant: Registrant,
    /// Queue of requests; shared with the session that this one replaces.
    queue: OnceLock<PluginQueue>,
    /// Lock that is held during a call, so that a plugin gets one call at a time although
    /// validations bypass its queue. The holder waits for the plugin only, never for another lock.
    call_lock: tokio::sync::Mutex<()>,
    /// Breaker of the plugin's budget.
    pub(crate) breaker: Mutex<Breaker>,
    /// Events that wait for the plugin.
    pub(crate) undelivered: Undelivered,
    /// Events that the plugin supports only as a `StateChange`.
    state_change_only: Mutex<EventMask>,
    /// Reason why the plugin is closed; the first reason is kept.
    closed: watch::Sender<Option<String>>,
    /// Whether the plugin is synchronized. Set with the permit of its queue.
    admitted: AtomicBool,
    /// Whether the plugin was not synchronized in time for requests to wait for it.
    late: watch::Sender<bool>,
    /// Whether a newer session has replaced this one.
    replaced: Arc<AtomicBool>,
    /// Reason why a reload or a newer session ends the plugin, which the supervisor then does not
    /// restart.
    retired: OnceLock<String>,
    /// Whether the session is cleaned up and the plugin's program has exited.
    cleaned_up: watch::Sender<bool>,
}

impl Plugin {
    pub(crate) fn new(
        id: PluginId,
        serial: u64,
        mask: EventMask,
        policy: PluginPolicy,
        timeout: Duration,
        (record, counters): (Arc<StatusRecord>, Arc<PluginCounters>),
        (session, registrant): (PluginClient, Registrant),
    ) -> Self {
        Self {
            id,
            serial,
            mask,
            policy: SharedPolicy::new(policy),
            timeout,
            session,
            record,
            counters,
            registrant,
            queue: OnceLock::new(),
            call_lock: tokio::sync::Mutex::default(),
            breaker: Mutex::default(),
            undelivered: Undelivered::default(),
            state_change_only: Mutex::default(),
            closed: watch::Sender::new(None),
            admitted: AtomicBool::new(false),
            late: watch::Sender::new(false),
            replaced: Arc::default(),
            retired: OnceLock::new(),
            cleaned_up: watch::Sender::new(false),
        }
    }

    /// Returns the queue of the plugin's requests.
    pub(crate) fn queue(&self) -> &PluginQueue {
        self.queue.get_or_init(PluginQueue::default)
    }

    /// Shares the queue of another session. Must be called before the first use of the own queue.
    pub(crate) fn share_queue(&self, other: &Self) {
        self.queue.get_or_init(|| other.queue().clone());
    }

    /// Calls the plugin, with the permit of its queue. Returns `None` if the call failed and the
    /// policy is to continue without the plugin.
    ///
    /// When the caller's future is dropped the call continues and keeps the permit: the plugin
    /// handles one request at a time.
    pub(crate) async fn call<Q: EventRequest>(
        self: &Arc<Self>,
        permit: QueuePermit,
        request: &EncodedRequest<Q>,
    ) -> Result<Option<Q::Reply>, AdaptError> {
        if !self.is_admitted() && !self.is_closed() {
            return self.skip_unsynchronized(request).map(|()| None);
        }
        match self.call_uncancelled(Some(permit), request).await {
            Ok(reply) => Ok(Some(reply)),
            Err(e) => self.failure(request, e).await.map_or(Ok(None), Err),
        }
    }

    /// Handles a request that reaches the plugin while it is still being synchronized.
    fn skip_unsynchronized<Q: EventRequest>(
        &self,
        request: &EncodedRequest<Q>,
    ) -> Result<(), AdaptError> {
        let (plugin, event) = (self.id.clone(), Q::EVENT);
        if self.failure_handling().on_failure == OnFailure::Ignore {
            let (container, pod) = (request.container(), request.pod());
            warn!(%plugin, container, pod, ?event, "plugin skipped: {}", NoReply::Unsynchronized);
            return Ok(());
        }
        let requested = self.policy.get().on_failure == OnFailure::Ignore;
        let (subject, source) = (request.subject().to_owned(), NoReply::Unsynchronized);
        Err(AdaptError::Unavailable { plugin, event, subject, source, requested })
    }

    /// Requests a verdict from the plugin, outside its queue. Returns `None` if the plugin does not
    /// reply and its policy is to continue without the verdict.
    pub(crate) async fn call_validator(
        self: &Arc<Self>,
        request: &EncodedRequest<ValidateContainerAdjustmentRequest>,
    ) -> Result<Option<ValidateContainerAdjustmentResponse>, AdaptError> {
        let event = Event::VALIDATE_CONTAINER_ADJUSTMENT;
        let error = match self.call_uncancelled(None, request).await {
            Ok(verdict) => return Ok(Some(verdict)),
            Err(error) => error,
        };
        match error {
            CallError::Timeout(_) | CallError::Closed(_) | CallError::Malformed(_) => {
                let plugin = self.id.clone();
                let container = request.subject().to_owned();
                if self.failure_handling().validation_failure == OnFailure::Ignore {
                    let pod = request.pod();
                    warn!(%plugin, ?event, container, pod, "validator skipped: {error}");
                    return Ok(None);
                }
                let requested = self.policy.get().validation_failure == OnFailure::Ignore;
                let source = self.no_reply(error).await;
                Err(AdaptError::NoVerdict { plugin, container, source, requested })
            }
            error => Err(self.error(request, error).await),
        }
    }

    /// Returns the handling of this plugin's failures, from its current policy and from what the
    /// plugin requested.
    pub(crate) fn failure_handling(&self) -> FailureHandling {
        let requested = self.record.read(|status| status.requested_failure_policy);
        self.policy.get().failure_handling(requested)
    }

    /// Returns the check of this plugin's replies against its current permissions.
    pub(crate) fn reply_check(&self) -> ReplyCheck<'_> {
        ReplyCheck { plugin: &self.id, policy: self.policy.get() }
    }

    /// Marks the plugin as closed: it gets no more calls, and its session task disconnects it.
    pub(crate) fn close(&self, why: String) {
        self.closed.send_if_modified(|closed| {
            let is_first = closed.is_none();
            closed.get_or_insert(why);
            is_first
        });
    }

    /// Whether the plugin is marked as closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.borrow().is_some()
    }

    /// Whether a request that begins now reaches the plugin. After the end of a connection it may
    /// take a second until the plugin is marked as closed, with the exit status of its program as
    /// the reason.
    pub(crate) fn is_connected(&self) -> bool {
        !self.is_closed() && !self.session.is_closed()
    }

    /// Waits until the plugin is marked as closed, and returns the reason.
    pub(crate) async fn closed(&self) -> String {
        let mut closed = self.closed.subscribe();
        // The sender is a field of self, so the channel stays open.
        closed.wait_for(Option::is_some).await.ok().and_then(|why| why.clone()).unwrap_or_default()
    }

    /// Records that the plugin is synchronized. Called with the permit of its queue.
    pub(crate) fn set_admitted(&self) {
        self.admitted.store(true, Ordering::Release);
    }

    /// Whether the plugin is synchronized.
    pub(crate) fn is_admitted(&self) -> bool {
        self.admitted.load(Ordering::Acquire)
    }

    /// Records that the plugin was not synchronized in time for requests to wait for it.
    pub(crate) fn set_late(&self) {
        self.late.send_replace(true);
    }

    /// Whether requests skip the plugin because it was not synchronized in time.
    pub(crate) fn is_late(&self) -> bool {
        *self.late.borrow() && !self.is_admitted()
    }

    /// Waits until requests do not wait for the plugin's synchronization any more.
    pub(crate) async fn late(&self) {
        // The sender is a field of self, so the channel stays open.
        let _ = self.late.subscribe().wait_for(|is_late| *is_late).await;
    }

    /// Records that a newer session has replaced this one, with the reason for its end.
    pub(crate) fn set_replaced(&self, why: String) {
        self.replaced.store(true, Ordering::Relaxed);
        self.retired.get_or_init(|| why);
    }

    /// Returns the flag whether a newer session has replaced this one.
    pub(crate) fn replaced(&self) -> Arc<AtomicBool> {
        self.replaced.clone()
    }

    /// Whether a newer session has replaced this one.
    pub(crate) fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Relaxed)
    }

    /// Ends the plugin, which is not restarted: sends `Shutdown`, then closes the session. Returns
    /// when the plugin's program has exited.
    pub(crate) async fn retire(&self, why: &str, grace: Duration) {
        // Set before the request: a plugin that exits at the request is reported with this reason.
        let why = self.retired.get_or_init(|| why.to_owned());
        // Best effort: old plugins do not implement Shutdown.
        let _ = self.session.shutdown(grace, &Empty::new()).await;
        self.close(why.clone());
        let mut cleaned_up = self.cleaned_up.subscribe();
        // The sender is a field of self, so the channel stays open.
        let _ = cleaned_up.wait_for(|done| *done).await;
    }

    /// Returns the reason why a reload or a newer session ended the plugin, if one did.
    pub(crate) fn retired(&self) -> Option<&str> {
        self.retired.get().map(String::as_str)
    }

    pub(crate) fn set_cleaned_up(&self) {
        self.cleaned_up.send_replace(true);
    }

    /// Calls the plugin, and holds the permit until the call returns, even if the caller's future
    /// is dropped.
    async fn call_uncancelled<Q: EventRequest>(
        self: &Arc<Self>,
        permit: Option<QueuePermit>,
        request: &EncodedRequest<Q>,
    ) -> Result<Q::Reply, CallError> {
        let (plugin, request) = (self.clone(), request.clone());
        // Taken here: the call may be continued in another task.
        let trace = current_trace();
        let call = Uncancelled::new(async move {
            let (_one_call, waited) = plugin.lock_call().await;
            // The permit is moved into this future, and dropped with it.
            let in_queue = permit.as_ref().map_or(Duration::ZERO, QueuePermit::waited);
            plugin.counters.record_queue(in_queue + waited);
            plugin.call_timed(&request, trace.as_deref().and_then(RequestTrace::context)).await
        });
        call.await.unwrap_or_else(|_| Err(CallError::Malformed("the call panicked".into())))
    }

    /// Waits until no other call is in progress, and returns the time.
    async fn lock_call(&self) -> (tokio::sync::MutexGuard<'_, ()>, Duration) {
        if let Ok(guard) = self.call_lock.try_lock() {
            return (guard, Duration::ZERO);
        }
        let start = tokio::time::Instant::now();
        let guard = self.call_lock.lock().await;
        (guard, start.elapsed())
    }

    /// Sends the request, waits for the reply within the timeout, and counts a timeout.
    async fn call_timed<Q: EventRequest>(
        &self,
        request: &EncodedRequest<Q>,
        trace: Option<&TraceContext>,
    ) -> Result<Q::Reply, CallError> {
        if self.is_closed() {
            return Err(CallError::Closed(None));
        }
        let start = tokio::time::Instant::now();
        let result = self.send(request, start, trace).await.and_then(check_types);
        let took = start.elapsed();
        debug!(
            plugin = %self.id, container = request.container(), pod = request.pod(),
            event = Q::METHOD, ?took, error = result.as_ref().err().map(tracing::field::display),
            "event"
        );
        if matches!(result, Err(CallError::Timeout(_))) && took > self.timeout + MAX_TIMER_DELAY {
            // The reply may have arrived while this process could not read it, so the timeout does
            // not count against the plugin.
            warn!(
                plugin = %self.id, event = ?Q::EVENT, ?took,
                "this process was stopped during the call, timeout not counted"
            );
        } else {
            let end = CallEnd::of::<Q>(&result);
            self.counters.record_call(Q::EVENT, took, end);
            self.record_result(Q::EVENT, end);
            if let Some(source) = request.source() {
                self.record_time(source, took, end);
            }
        }
        result
    }

    /// Sends the request by its dedicated call, or as a `StateChange` if the plugin is too old.
    async fn send<Q: EventRequest>(
        &self,
        request: &EncodedRequest<Q>,
        start: tokio::time::Instant,
        trace: Option<&TraceContext>,
    ) -> Result<Q::Reply, CallError> {
        let parts = request.parts();
        let by_call = || self.session.call(Q::METHOD, self.timeout, &parts[..], trace);
        if !self.with_state_change_only(|events| events.contains(Q::EVENT)) {
            let result = by_call().await;
            if !result.as_ref().is_err_and(CallError::is_unimplemented)
                || request.state_change().is_none()
            {
                return result;
            }
            info!(
                plugin = %self.id, event = ?Q::EVENT,
                "call not implemented by the plugin, falling back to StateChange"
            );
            self.with_state_change_only(|events| *events = events.with(Q::EVENT));
        }
        let Some(event) = request.state_change() else { return by_call().await };
        // Both calls together are limited by one timeout.
        let left = self.timeout.saturating_sub(start.elapsed());
        let result = self.session.call("StateChange", left, &event, trace).await;
        let result = result.map(|_: Empty| Q::Reply::default());
        result.map_err(|e| match e {
            CallError::Timeout(_) => CallError::Timeout(self.timeout),
            e => e,
        })
    }

    /// Counts consecutive timeouts, records the failure, and closes the plugin after too many
    /// timeouts or a fatal error. A refusal is a reply, and no failure.
    fn record_result(&self, event: Event, end: CallEnd<'_>) {
        let error = match end {
            CallEnd::Failure(error) => Some(error),
            CallEnd::Reply | CallEnd::Refusal => None,
        };
        let timeouts = self.record.set(|status| {
            match error {
                Some(CallError::Timeout(_)) => status.timeouts += 1,
                // The request was not sent, so the error says nothing about the plugin.
                Some(CallError::TooLarge { .. }) => {}
                Some(_) | None => status.timeouts = 0,
            }
            // The error that closed the plugin is kept.
            if let Some(e) = error.filter(|_| !status.state.has_ended()) {
                status.last_error = Some(format!("{event:?}: {e}"));
            }
            status.timeouts
        });
        match error {
            Some(e @ CallError::Timeout(_)) => {
                warn!(plugin = %self.id, ?event, timeouts, "{e}");
                let limit = self.failure_handling().consecutive_timeouts;
                if limit != 0 && timeouts >= limit {
                    self.close(format!("{event:?}: {e}, {timeouts} in a row"));
                }
            }
            Some(e) if e.is_fatal() => self.close(format!("{event:?}: {e}")),
            Some(_) | None => {}
        }
    }

    /// Returns the error of the request, unless the policy is to continue without the plugin.
    async fn failure<Q: EventRequest>(
        &self,
        request: &EncodedRequest<Q>,
        error: CallError,
    ) -> Option<AdaptError> {
        match error {
            CallError::Timeout(_) | CallError::Closed(_) | CallError::Malformed(_)
                if self.failure_handling().on_failure == OnFailure::Ignore =>
            {
                warn!(
                    plugin = %self.id, container = request.container(), pod = request.pod(),
                    event = ?Q::EVENT, "plugin skipped: {error}"
                );
                None
            }
            error => Some(self.error(request, error).await),
        }
    }

    async fn error<Q: EventRequest>(
        &self,
        request: &EncodedRequest<Q>,
        error: CallError,
    ) -> AdaptError {
        let (plugin, event) = (self.id.clone(), Q::EVENT);
        let subject = request.subject().to_owned();
        let is_refusal = is_refusal::<Q>(&error);
        match error {
            CallError::Status { code, message } if is_refusal => {
                AdaptError::Refused { plugin, event, subject, code, message }
            }
            CallError::Status { code, message } => {
                AdaptError::Failed { plugin, event, subject, code, message }
            }
            CallError::TooLarge { size } => AdaptError::TooLarge { plugin, event, subject, size },
            error @ (CallError::Timeout(_) | CallError::Closed(_) | CallError::Malformed(_)) => {
                let requested = self.policy.get().on_failure == OnFailure::Ignore;
                let source = self.no_reply(error).await;
                AdaptError::Unavailable { plugin, event, subject, source, requested }
            }
        }
    }

    /// Returns the reason why the plugin did not reply: if its connection was closed, the reason
    /// for the end of its session.
    async fn no_reply(&self, error: CallError) -> NoReply {
        if !matches!(error, CallError::Closed(_)) {
            return error.into();
        }
        let mut cleaned_up = self.cleaned_up.subscribe();
        let ended = tokio::time::timeout(EXIT_TIMEOUT, cleaned_up.wait_for(|done| *done)).await;
        let (why, origin) = self.record.read(|s| (s.last_error.clone(), s.origin.clone()));
        match (why, origin) {
            (Some(why), PluginOrigin::Launched(_)) if ended.is_ok() => {
                NoReply::Exited(format!("{why}; its output is in the log"))
            }
            (Some(why), PluginOrigin::External) if ended.is_ok() => NoReply::Exited(why),
            _ => error.into(),
        }
    }

    fn with_state_change_only<T>(&self, f: impl FnOnce(&mut EventMask) -> T) -> T {
        f(&mut self.state_change_only.lock())
    }
}
