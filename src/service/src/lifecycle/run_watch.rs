//! Watch on the process that creates a container, for verbs that no wrapper reports: under `run`
//! the wrapper becomes the runtime, and after a restart of `nrid` no wrapper is connected.

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

/// Time that a runtime has to read `config.json` if its process cannot be watched. Afterwards
/// another creation may use the bundle.
const CONFIG_READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval at which `nrid` checks whether the runtime has read `config.json`.
const CONFIG_READ_POLL: Duration = Duration::from_millis(5);

impl Service {
    /// Waits until the process that was the wrapper, and now is the runtime, ends; then reconciles
    /// the container. `bundle` is released when the runtime has read `config.json`.
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
                // The process is in a pid namespace that nrid cannot see.
                let _ = timeout(CONFIG_READ_TIMEOUT, config_read(&container)).await;
                drop(bundle);
            }
            let _lock = service.locks.container(&container.key()).await;
            if service.registry.contains(&container) {
                service.reconcile(&container).await;
            }
        });
    }

    /// Follows the process that was creating a container when the previous `nrid` ended, and may
    /// still run.
    pub fn follow_caller(self: &Arc<Self>, container: &Arc<Container>) {
        let record = container.record();
        let may_run = record.by_run || record.status == ContainerStatus::Creating;
        let Some(caller) = record.caller.filter(|_| may_run) else { return };
        self.follow_run(container, open(caller), None);
    }
}

/// Opens a pidfd, and then checks the process identity, because the pid may have been reused.
pub(super) fn open(process: ProcessIdentity) -> Option<Process> {
    Process::open(process.pid).filter(|_| process.is_alive())
}

/// Waits until the runtime has read `config.json`. Runtimes read it before they make the
/// container's directory.
async fn config_read(container: &Container) {
    let record = container.record();
    while container.runtime_progress() < RuntimeProgress::ConfigRead
        && !record.runtime.has(&record.key.id)
    {
        sleep(CONFIG_READ_POLL).await;
    }
}
