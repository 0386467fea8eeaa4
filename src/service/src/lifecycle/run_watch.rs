//! Watch on the process that creates a container, for verbs whose result no wrapper reports. Under
//! `run` the wrapper becomes the runtime, and after a restart of `nrid` no wrapper is connected.

use crate::{
    host::process::{Process, ProcessIdentity},
    lifecycle::runtime_failure,
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
/// another creation may use the bundle. Runtimes read the file within milliseconds.
const CONFIG_READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval at which `nrid` checks whether the runtime has read `config.json`.
const CONFIG_READ_POLL: Duration = Duration::from_millis(5);

/// Interval at which `nrid` checks a process that it cannot open.
const PROCESS_POLL: Duration = Duration::from_millis(500);

impl Service {
    /// Waits until the runtime's process (under `run`, the former wrapper) exits, and then
    /// reconciles the container. The lock `bundle` is released when the runtime has read
    /// `config.json`.
    pub fn follow_run(
        self: &Arc<Self>,
        container: &Arc<Container>,
        runtime: Option<ProcessIdentity>,
        bundle: Option<Arc<LockGuard>>,
    ) {
        let (service, container) = (self.clone(), container.clone());
        tokio::spawn(async move {
            if let Some(runtime) = runtime {
                let end = service.wait_for_end(runtime);
                tokio::pin!(end);
                if bundle.is_some() {
                    tokio::select! {
                        // Before the reconciliation, which restores config.json under this lock.
                        () = &mut end => drop(bundle),
                        () = wait_for_config_read(&container) => {
                            drop(bundle);
                            end.await;
                        }
                    }
                } else {
                    end.await;
                }
            } else if bundle.is_some() {
                // The process is in a pid namespace that nrid cannot see.
                let _ = timeout(CONFIG_READ_TIMEOUT, wait_for_config_read(&container)).await;
                drop(bundle);
            }
            let _lock = service.locks.container(container.key()).await;
            if service.registry.contains(&container) {
                if container.status() == ContainerStatus::Creating && !container.exists().await {
                    runtime_failure::log_unreported(&service, &container.record(), "create");
                }
                Box::pin(service.reconcile(&container)).await;
            }
        });
    }

    /// Waits for the process that was creating a container when the previous `nrid` ended, if it
    /// still runs, and then reconciles the container.
    pub fn follow_caller(self: &Arc<Self>, container: &Arc<Container>) {
        let record = container.record();
        let may_run = record.by_run || record.status == ContainerStatus::Creating;
        let Some(caller) = record.caller.filter(|_| may_run) else { return };
        self.follow_run(container, Some(caller), None);
    }

    /// Waits until a process has ended. A process that cannot be opened is checked in intervals.
    pub async fn wait_for_end(&self, process: ProcessIdentity) {
        loop {
            let Ok(_permit) = self.descriptors.pidfd() else {
                if process.has_ended().unwrap_or(false) {
                    return;
                }
                sleep(PROCESS_POLL).await;
                continue;
            };
            match Process::open(process.pid) {
                Ok(None) => return,
                // The identity is compared after the pidfd is open, because the pid may have been
                // reused.
                Ok(Some(opened)) => match process.has_ended() {
                    Ok(true) => return,
                    Ok(false) => return opened.wait_for_exit().await,
                    Err(_) => {}
                },
                Err(_) => {}
            }
            sleep(PROCESS_POLL).await;
        }
    }
}

/// Waits until the runtime has read `config.json`, which it does before it makes the container's
/// directory.
async fn wait_for_config_read(container: &Container) {
    let record = container.record();
    while container.runtime_progress() < RuntimeProgress::ConfigRead
        && !matches!(record.runtime.look_up(&record.key.id).await, Ok(true))
    {
        sleep(CONFIG_READ_POLL).await;
    }
}
