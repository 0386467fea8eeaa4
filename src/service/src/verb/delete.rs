//! `delete`: the runtime deletes the container, the engine gets its bundle back, plugins are
//! notified.

use crate::{
    channel::Channel,
    service::Service,
    state::{container::Container, locks::LockGuard, status::RuntimeProgress},
    verb::request::VerbRequest,
};
use nri_control::{FrameError, Reply, Substitute};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// Time that a `delete` waits for another verb of the same container. Afterwards it goes on without
/// the lock, because a container must always be deletable; plugins that answer at all have done so
/// by then.
const DELETE_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves a `delete`.
///
/// # Errors
/// The wrapper has gone, or does not speak the protocol.
pub async fn serve(
    service: &Arc<Service>,
    channel: &mut Channel,
    request: &VerbRequest,
) -> Result<(), FrameError> {
    let key = &request.key;
    let lock = timeout(DELETE_LOCK_TIMEOUT, service.locks.container(key)).await.ok();
    let Some(container) = service.registry.get(key) else {
        return channel.send(&Reply::Bypass).await;
    };
    if lock.is_some() {
        service.stopped_if_ended(&container).await;
    }
    let existed = container.exists();
    let deleting = container.start_delete();
    let finished = channel.proceed(Substitute::default()).await;
    drop(deleting);
    // `checkpoint` deletes the container. A later `delete` fails, although the container is gone.
    let deleted =
        finished.is_some_and(|f| f.exit.success()) || !container.record().runtime.has(&key.id);
    // A container that is still to be created is reconciled by its creation.
    if !deleted || (!existed && container.is_being_created()) {
        return channel.send(&Reply::Done).await;
    }
    // The engine may use the bundle again when it has the reply, and the id when the lock is free.
    container.set_runtime_progress(RuntimeProgress::Deleted);
    service.restore_config(&container.record()).await;
    let replied = channel.send(&Reply::Done).await;
    match lock {
        Some(lock) => notify(service, &container, lock).await,
        None => {
            let service = service.clone();
            tokio::spawn(async move {
                let lock = service.locks.container(&container.key()).await;
                notify(&service, &container, lock).await;
            });
        }
    }
    replied
}

async fn notify(service: &Service, container: &Container, _lock: LockGuard) {
    if service.registry.contains(container) {
        service.removed(container).await;
    }
}
