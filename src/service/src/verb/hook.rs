//! The reports of our OCI hook: the life of a container that was made by `run` or `restore`.

use crate::{
    error::{CallerError, Error},
    host::runtime::State,
    lifecycle::transition::IfNotEffective,
    service::Service,
    state::{
        container::Container,
        status::{ContainerStatus, RuntimeProgress},
    },
    verb::request::refuse,
};
use nri_control::{Hook, HookKind, Reply};
use std::sync::Arc;

/// Serves a hook.
pub async fn serve(service: &Arc<Service>, hook: &Hook) -> Reply {
    let Some(container) = service.registry.by_hook_name(&hook.record) else {
        return match hook.kind {
            HookKind::CreateRuntime => {
                refuse("", &CallerError::UnknownRecord(hook.record.clone()).into())
            }
            HookKind::Poststart | HookKind::Poststop => Reply::Done,
        };
    };
    match report(service, hook, &container).await {
        Ok(()) => Reply::Done,
        Err(error) => refuse(&container.key().id, &error),
    }
}

async fn report(
    service: &Arc<Service>,
    hook: &Hook,
    container: &Arc<Container>,
) -> Result<(), Error> {
    // The hook is in config.json. When the last hook runs, the runtime may have dropped the state
    // of a short life already.
    container.set_runtime_progress(RuntimeProgress::ConfigRead);
    if container.is_being_deleted() && hook.kind == HookKind::Poststop {
        // The wrapper that runs `delete` holds the lock and reports.
        return Ok(());
    }
    let _lock = service.locks.container(&container.key()).await;
    let is_known = service.registry.contains(container);
    // A hook may outlive its runtime; then the container was reconciled, and the report is late.
    let status = container.status();
    match hook.kind {
        HookKind::CreateRuntime => {
            if !is_known {
                return Err(CallerError::CreationOver.into());
            }
            if status >= ContainerStatus::Running {
                return Ok(());
            }
            let state: State = serde_json::from_str(&hook.state).map_err(CallerError::HookState)?;
            let pid = (state.pid > 0).then_some(state.pid);
            service.created(container, pid, IfNotEffective::Refuse).await?;
            service.starting(container).await?;
        }
        HookKind::Poststart => {
            if is_known && status < ContainerStatus::Running {
                service.running(container);
            }
        }
        HookKind::Poststop => {
            if is_known && !container.exists() {
                service.removed(container).await;
            } else if is_known {
                // crun runs the hook before it drops its state, and may be killed in between: then
                // the container still exists, and can be deleted.
                service.stopped(container).await;
                service.restore_config(&container.record()).await;
                service.expect_deletion(container.clone());
            }
        }
    }
    Ok(())
}
