//! `update`: plugins adjust the resources that the engine requests, and the runtime gets the merged
//! resources.
//!
//! `prepare` asks plugins. The commit of their replies makes the updates of other containers, and
//! takes the update lock of this one, which is held to the end. Then the update is recorded as
//! pending, the wrapper calls the runtime, and `finish` completes or undoes the update, but no
//! update of another container. Commits of other events do not wait for the runtime meanwhile.

pub mod args;
mod docker_zeros;
mod finish;
mod numbers;
mod prepare;
mod whole;

use crate::{
    channel::Channel,
    error::Error,
    host::process::ProcessIdentity,
    lifecycle::runtime_failure::{self, RuntimeInput},
    service::Service,
    state::status::ContainerStatus,
    verb::request::VerbRequest,
};
use nri_control::{FrameError, Reply};
use nri_files::AuditEvent;

/// Serves an `update`.
///
/// # Errors
/// The connection to the wrapper fails, or a frame is invalid.
pub async fn serve(
    service: &Service,
    channel: &mut Channel,
    request: &VerbRequest,
) -> Result<(), FrameError> {
    let caller = channel.peer_pid().and_then(ProcessIdentity::of);
    if let Some(container) = service.registry.get(&request.key) {
        container.note_update_request(caller);
    }
    let lock = match service.lock_for(request, channel).await {
        Ok(lock) => lock,
        Err(error) => return channel.send(&request.refuse(&error)).await,
    };
    let Some(container) = service.registry.locked(&lock) else {
        return channel.send(&Reply::Bypass).await;
    };
    service.on_stopped_if_ended(&container).await;
    // The runtime refuses the update of a stopped container.
    if container.status() == ContainerStatus::Stopped {
        return channel.send(&Reply::Bypass).await;
    }
    let record = container.record();
    let refuse = |error: Error| {
        let line = service.audit_line(&record, AuditEvent::Refusal);
        service.audit_refusal(line, "update", &error);
        request.refuse(&error)
    };
    let update = match service.prepare_update(&request.begin, &container, caller).await {
        Ok(update) => update,
        Err(error) => return channel.send(&refuse(error)).await,
    };
    match channel.proceed(update.substitute.clone()).await {
        Some(finished) if finished.exit.success() => {
            let reply = match service.finish_update(&update).await {
                Ok(()) => Reply::Done,
                Err(error) => refuse(error),
            };
            channel.send(&reply).await
        }
        Some(finished) => {
            let pending = &update.resources.pending;
            let requested = RuntimeInput {
                owners: &pending.owners,
                resources: &pending.effective.resources,
                only_resources: true,
            };
            let record = update.lock.record();
            let text = runtime_failure::report(service, &record, "update", &finished, requested);
            service.cancel_update(&update).await;
            channel.send(&runtime_failure::reply(text)).await
        }
        // The wrapper was killed, and its runtime with it: the control groups show the result.
        None => {
            service.resolve_update(&update).await;
            Ok(())
        }
    }
}
