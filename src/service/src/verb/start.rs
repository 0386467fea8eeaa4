//! `start`: plugins receive the request, the runtime starts the container, and plugins are
//! notified.
//!
//! The wrapper becomes the runtime if `nrid` can follow its process (`follow.rs`), and if the
//! container waits at the runtime's FIFO; otherwise it reports the result. The container lock is
//! held until then.

use crate::{
    channel::Channel,
    error::{Error, HostError},
    lifecycle::{
        missed_start::waits_at_fifo,
        runtime_failure::{self, RuntimeInput},
    },
    resources::enforce::IfNotEffective,
    service::Service,
    state::{followed::FollowedVerb, locked::LockedContainer, status::ContainerStatus},
    verb::{follow::Outcome, request::VerbRequest},
};
use nri_control::{FrameError, Reply, Substitute};
use nri_files::AuditEvent;
use std::sync::Arc;

/// Serves a `start`.
///
/// # Errors
/// The connection to the wrapper fails, or a frame is invalid.
pub async fn serve(
    service: &Arc<Service>,
    channel: &mut Channel,
    request: &VerbRequest,
) -> Result<(), FrameError> {
    let lock = match service.lock_for(request, channel).await {
        Ok(lock) => lock,
        Err(error) => return channel.send(&request.refuse(&error)).await,
    };
    let Some(container) = service.registry.locked(&lock) else {
        return channel.send(&Reply::Bypass).await;
    };
    match prepare(service, &container).await {
        Ok(true) => {}
        Ok(false) => return channel.send(&Reply::Bypass).await,
        Err(error) => {
            let line = service.audit_line(&container.record(), AuditEvent::Refusal);
            service.audit_refusal(line, "start", &error);
            return channel.send(&request.refuse(&error)).await;
        }
    }
    let record = container.record();
    // A start is followed only if the container now waits at the runtime's FIFO. If the runtime is
    // killed, no exit code shows whether the container started, but the FIFO does.
    let shows_start = request.begin.follow && waits_at_fifo(&record).await;
    let follower = service.follow(channel, request, &record).filter(|_| shows_start);
    if let Some(follower) = follower {
        let (outcome, entry) =
            service.run_followed(follower, FollowedVerb::Start, &record, channel).await;
        if outcome.has_started(&container).await {
            service.on_running(&container);
        } else if outcome == Outcome::Failed {
            runtime_failure::log_unreported(service, &record, "start");
        }
        service.verbs.followed.remove(entry);
        return Ok(());
    }
    let finished = channel.proceed(Substitute::default()).await;
    let started = match &finished {
        Some(finished) => finished.exit.success(),
        // The wrapper was killed, and its runtime with it: `state` shows whether the container
        // started.
        None => {
            let state = container.record().runtime.state(&request.key.id).await;
            state.is_ok_and(|s| s.status == "running" || s.status == "stopped")
        }
    };
    if started {
        service.confirm_running(&container);
    }
    let failed = finished.filter(|_| !started);
    let text = failed.and_then(|finished| {
        runtime_failure::report(service, &record, "start", &finished, RuntimeInput::of(&record))
    });
    let replied = channel.send(&runtime_failure::reply(text)).await;
    if started {
        service.on_running(&container);
    }
    replied
}

/// Sends the request to plugins. Returns `false` without a request if the runtime will refuse the
/// start.
async fn prepare(service: &Arc<Service>, container: &LockedContainer) -> Result<bool, Error> {
    let is_being_created = container.is_being_created().await;
    if is_being_created.map_err(|e| HostError::unreadable_root(container.key(), e))? {
        return Ok(false);
    }
    if container.status() == ContainerStatus::Creating {
        // The creation ended while no nrid ran, and was not reported.
        service.reconcile(container).await;
    }
    service.on_stopped_if_ended(container).await;
    if container.status() >= ContainerStatus::Running {
        return Ok(false);
    }
    if container.is_enforcement_pending() {
        let _lock = container.lock_update().await;
        service.confirm_created(container, None, IfNotEffective::Refuse)?;
    }
    service.request_start(container).await?;
    Ok(true)
}
