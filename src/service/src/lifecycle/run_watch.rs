//! Following the process that creates a container, where no wrapper reports the end of the verb:
//! under `run` the wrapper becomes the runtime, and after a restart of `nrid` no wrapper is
//! connected.

use crate::{
    host::process::{Process, ProcessIdentity},
    service::Service,
    state::{
        container::Container,
        locks::LockGuard,
        status::{ContainerStatus, RuntimeProgress},
    },
};
use std::{sync::Arc, time::Duration};
use tokio::time::{sleep, timeout};

/// Time that a runtime has to read `config.json` if its process cannot be watched; afterwards
/// another creation may use the bundle.
const CONFIG_READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval at which that is checked.
const CONFIG_READ_POLL: Duration = Duration::from_millis(5);

impl Service {
    /// Follows the runtime's `run`, which was the wrapper, and reconciles the container when it
    /// ends. `bundle` is released when the runtime has read `config.json`.
    pub fn follow_run(
        self: &Arc<Self>,
        container: &Arc<Container>,
        runtime: Option<Process>,
        bundle: Option<LockGuard>,
    ) {
        let (service, container) = (self.clone(), container.clone());
        tokio::spawn(async move {
            if let Some(process) = runtime {
                if bundle.is_some() {
                    tokio::select! {
                        () = process.ended() => {}
                        () = config_read(&container) => {}
                    }
                }
                drop(bundle);
                process.ended().await;
            } else if bundle.is_some() {
                // The process is in a pid namespace that is not visible.
                let _ = timeout(CONFIG_READ_TIMEOUT, config_read(&container)).await;
                drop(bundle);
            }
            let _lock = service.locks.container(&container.key()).await;
            if service.registry.contains(&container) {
                service.reconcile(&container).await;
            }
        });
    }

    /// Follows the creation or the `run` of a container that the previous `nrid` left: the process
    /// that creates it may still be at work.
    pub fn follow_caller(self: &Arc<Self>, container: &Arc<Container>) {
        let record = container.record();
        let is_at_work = record.by_run || record.status == ContainerStatus::Creating;
        let Some(caller) = record.caller.filter(|_| is_at_work) else { return };
        self.follow_run(container, open(caller), None);
    }
}

/// Opens a process. The pidfd first, then the check that it is still the same process.
pub(super) fn open(process: ProcessIdentity) -> Option<Process> {
    Process::open(process.pid).filter(|_| process.is_alive())
}

/// Waits until the runtime has read `config.json`, which it has when it makes its directory.
async fn config_read(container: &Container) {
    let record = container.record();
    while container.runtime_progress() < RuntimeProgress::ConfigRead
        && !record.runtime.has(&record.key.id)
    {
        sleep(CONFIG_READ_POLL).await;
    }
}
