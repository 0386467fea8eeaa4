//! `create`: plugins are asked, the runtime creates the container from the adjusted bundle, and
//! what it made is compared with what plugins set.

use crate::{
    channel::Channel,
    lifecycle::transition::IfNotEffective,
    service::Service,
    state::{container::Container, record::Record},
    verb::{
        creation::prepare::{Creation, prepare},
        request::{VerbRequest, refuse},
    },
};
use nri_control::{FrameError, Reply, Substitute};
use std::sync::Arc;

/// Serves a `create`.
///
/// # Errors
/// The wrapper has gone, or does not speak the protocol.
pub async fn serve(
    service: &Arc<Service>,
    channel: &mut Channel,
    request: VerbRequest,
) -> Result<(), FrameError> {
    let key = request.key.clone();
    let lock = service.locks.container(&key).await;
    let caller = channel.peer()?;
    let (container, bundle_lock) = match prepare(service, request, caller).await {
        Ok(Creation::Proceed(container, bundle_lock)) => (container, bundle_lock),
        Ok(Creation::Bypass) => return channel.send(&Reply::Bypass).await,
        Err(error) => return channel.send(&refuse(&key.id, &error)).await,
    };
    let finished = channel.proceed(Substitute::default()).await;
    let record = container.record();
    let created = match &finished {
        Some(finished) => finished.exit.success(),
        // The wrapper was killed, and its runtime with it: the container's state decides.
        None => record.runtime.state(&key.id).await.is_ok(),
    };
    drop(bundle_lock);
    if !created {
        // The engine may use its bundle when it has the reply.
        service.removed(&container).await;
        return channel.send(&Reply::Done).await;
    }
    let mut pid = finished.and_then(|f| f.pid);
    if pid.is_none() && record.has_plugin_resources() {
        pid = pid_of(&record).await;
    }
    if let Err(error) = service.confirm_created(&container, pid, IfNotEffective::Refuse) {
        roll_back(service, &container).await;
        return channel.send(&refuse(&key.id, &error)).await;
    }
    // The engine need not wait for notifications; its next verb waits for the lock.
    let replied = channel.send(&Reply::Done).await;
    if pid.is_none() {
        pid = pid_of(&record).await;
    }
    service.announce_created(&container, pid);
    drop(lock);
    replied
}

/// Deletes a container that does not hold what plugins set.
async fn roll_back(service: &Service, container: &Container) {
    let record = container.record();
    let id = &record.key.id;
    if let Err(error) = record.runtime.delete(id).await {
        tracing::error!(container = id, %error, "cannot delete the container of a failed creation");
    }
    service.removed(container).await;
}

/// The id of the container's first process, as the runtime knows it.
async fn pid_of(record: &Record) -> Option<i32> {
    let state = record.runtime.state(&record.key.id).await;
    state.ok().map(|s| s.pid).filter(|pid| *pid > 0)
}
