//! `delete`: the runtime deletes the container, and plugins are notified of its stop and removal.
//!
//! If the exit of the container was not noticed yet, it stops first. The wrapper becomes the
//! runtime if `nrid` can follow its process (`follow.rs`). Otherwise it reports the result, and
//! gets its reply before plugins are notified. `Service::on_removed` then removes the bundle of
//! `nrid`, notifies plugins, and removes the marker for `exec` and, last, the record, and the pod
//! after its last container. The wrapper starts no `nrid` for a `delete`: the next `nrid` finds the
//! deletion. A refusal is only a warning there. `--force` also ends a creation whose process is
//! stopped (`lock.rs`).

use crate::{
    channel::Channel,
    service::Service,
    state::{followed::FollowedVerb, status::RuntimeProgress},
    verb::{follow::Outcome, request::VerbRequest},
};
use nri_adaptation::inherited;
use nri_control::{FrameError, Reply, Substitute};
use std::sync::Arc;

/// Serves a `delete`.
///
/// # Errors
/// The connection to the wrapper fails, or a frame is invalid.
pub async fn serve(
    service: &Arc<Service>,
    channel: &mut Channel,
    request: &VerbRequest,
) -> Result<(), FrameError> {
    let key = &request.key;
    let lock = service.lock_for_delete(request, channel).await;
    let locked = lock.and_then(|lock| service.registry.locked(&lock));
    let Some(container) = service.registry.get(key) else {
        return channel.send(&Reply::Bypass).await;
    };
    if request.begin.flag {
        service.kill_stopped_creation(&container).await;
    }
    if let Some(container) = &locked {
        service.on_stopped_if_ended(container).await;
    }
    let existed = container.exists().await;
    let deleting = container.start_delete();
    let record = container.record();
    let follower = service.follow(channel, request, &record);
    let is_followed = follower.is_some();
    let succeeded = match follower {
        Some(follower) => {
            let (outcome, entry) =
                service.run_followed(follower, FollowedVerb::Delete, &record, channel).await;
            // If nrid ends from now on, the next one finds that the container is gone.
            service.verbs.followed.remove(entry);
            outcome == Outcome::Succeeded
        }
        None => {
            let finished = channel.proceed(Substitute::default()).await;
            finished.is_some_and(|f| f.exit.success())
        }
    };
    drop(deleting);
    // `delete` fails after a `checkpoint`, which has already deleted the container. Therefore the
    // container also counts as deleted if the runtime does not have it.
    let deleted = succeeded || !container.record().runtime.has(&key.id).await;
    // If there was no container before the `delete`, but one is being created, the creation in
    // progress handles the container.
    if !deleted || (!existed && container.is_being_created().await.unwrap_or(true)) {
        return if is_followed { Ok(()) } else { channel.send(&Reply::Done).await };
    }
    container.set_runtime_progress(RuntimeProgress::Deleted);
    let mut replied = Ok(());
    if !is_followed {
        replied = channel.send(&Reply::Done).await;
    }
    match locked {
        Some(container) => service.on_removed(&container).await,
        None => {
            let service = service.clone();
            // Unless another task removes the container meanwhile.
            tokio::spawn(inherited(async move {
                if let Some(container) = service.lock(&container).await {
                    service.on_removed(&container).await;
                }
            }));
        }
    }
    replied
}
