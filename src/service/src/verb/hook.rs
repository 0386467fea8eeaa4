//! What our OCI hook reports: the life of a container that was made by `run` or `restore`.

use crate::{
    error::{CallerError, Error},
    service::Service,
    state::{record::Phase, registry::Container},
};
use nri_control::{Hook, HookKind};
use std::sync::Arc;

impl Service {
    /// A hook runs; `container` is the one whose record it names, if it is known.
    ///
    /// # Errors
    /// `createRuntime`: a plugin refuses the start, or the record is not known.
    pub async fn hook(
        self: &Arc<Self>,
        hook: &Hook,
        container: Option<Arc<Container>>,
    ) -> Result<(), Error> {
        let Some(container) = container else {
            return match hook.kind {
                HookKind::CreateRuntime => {
                    Err(CallerError::UnknownRecord(hook.record.clone()).into())
                }
                HookKind::Poststart | HookKind::Poststop => Ok(()),
            };
        };
        // Hooks stand in it. The last one may run when a state that was there for a moment only is
        // gone already.
        container.set_document_read();
        if container.is_deleting() && hook.kind == HookKind::Poststop {
            // The wrapper that runs `delete` holds the lane and reports.
            return Ok(());
        }
        let key = container.key();
        let _lane = self.lane(&key).await;
        let is_known = self.registry.get(&key).is_some_and(|known| Arc::ptr_eq(&known, &container));
        // A hook may outlive its runtime; what it reports has been settled then.
        let phase = container.record().phase;
        match hook.kind {
            HookKind::CreateRuntime => {
                if !is_known {
                    return Err(CallerError::CreationOver.into());
                }
                if phase >= Phase::Running {
                    return Ok(());
                }
                let state: crate::host::runtime::State =
                    serde_json::from_str(&hook.state).map_err(CallerError::HookState)?;
                let pid = (state.pid > 0).then_some(state.pid);
                self.enforce_created(&container, pid)?;
                if phase < Phase::Created {
                    self.created(&container, pid).await;
                }
                Ok(self.starting(&container).await?)
            }
            HookKind::Poststart => {
                if is_known && phase < Phase::Running {
                    self.running(&container).await;
                }
                Ok(())
            }
            HookKind::Poststop => {
                if is_known && !container.is_there() {
                    self.finish(&container).await;
                } else if is_known {
                    // crun runs it before it drops its state, and may be killed in between: then
                    // the container is still there, and can be deleted.
                    self.stop_if_owed(&container).await;
                    self.give_back(&container.record()).await;
                    self.expect_end(container.clone());
                }
                Ok(())
            }
        }
    }
}
