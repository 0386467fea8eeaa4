//! Reports of our OCI hook, for containers that were created by `run` or `restore`: the wrapper has
//! become the runtime, and cannot report.

use crate::{
    error::{CallerError, Error},
    host::runtime::State,
    resources::enforce::IfNotEffective,
    service::Service,
    state::{container::Container, status::ContainerStatus},
    verb::request::refuse,
};
use nri_control::{Hook, HookKind, Reply};
use std::sync::Arc;

/// Serves a report of the hook.
pub async fn serve(service: &Arc<Service>, hook: &Hook) -> Reply {
    // A hook that an earlier nrid has left in a bundle, or one that outlives its container, has
    // nothing to report: its container must not fail for it.
    let Some(container) = service.registry.by_hook_name(&hook.record) else {
        return Reply::Done;
    };
    let id = &container.key().id;
    match report(service, hook, &container).await {
        Ok(()) => Reply::Done,
        Err(error) => refuse(id, &error),
    }
}

async fn report(
    service: &Arc<Service>,
    hook: &Hook,
    container: &Arc<Container>,
) -> Result<(), Error> {
    if container.is_being_deleted() && hook.kind == HookKind::Poststop {
        // The wrapper that runs `delete` holds the container lock, and reports the deletion.
        return Ok(());
    }
    // A hook may outlive its runtime; the container has then been reconciled. A report of a status
    // that the container already has changes nothing. If the record was removed, createRuntime
    // fails, so that the container does not start, and other reports change nothing.
    let Some(container) = service.lock(container).await else {
        let is_over = hook.kind == HookKind::CreateRuntime;
        return if is_over { Err(CallerError::CreationOver.into()) } else { Ok(()) };
    };
    let status = container.status();
    match hook.kind {
        HookKind::CreateRuntime => {
            if status >= ContainerStatus::Running {
                return Ok(());
            }
            let state: State = serde_json::from_str(&hook.state).map_err(CallerError::HookState)?;
            let pid = (state.pid > 0).then_some(state.pid);
            service.on_created(&container, pid, IfNotEffective::Refuse).await?;
            service.request_start(&container).await?;
        }
        HookKind::Poststart => {
            if status < ContainerStatus::Running {
                service.on_running(&container);
            }
        }
        HookKind::Poststop => {
            if !container.exists().await {
                service.on_removed(&container).await;
            } else {
                // crun runs the hook before it removes its state. If crun is killed in between, the
                // container still exists, and can be deleted.
                service.on_stopped(&container).await;
                service.expect_deletion(Arc::clone(&container));
            }
        }
    }
    Ok(())
}
