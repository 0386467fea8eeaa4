//! Watch on the process that creates a container, for verbs whose result no wrapper reports. Under
//! `run` the wrapper becomes the runtime, and after a restart of `nrid` no wrapper is connected.

use crate::{
    host::process::{Process, ProcessIdentity},
    lifecycle::runtime_failure,
    service::Service,
    state::{container::Container, status::ContainerStatus},
};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

/// Interval at which `nrid` checks a process that it cannot open.
const PROCESS_POLL: Duration = Duration::from_millis(500);

impl Service {
    /// Waits until the runtime's process (under `run`, the former wrapper) exits, and then
    /// reconciles the container.
    pub fn follow_run(
        self: &Arc<Self>,
        container: &Arc<Container>,
        runtime: Option<ProcessIdentity>,
    ) {
        let (service, container) = (self.clone(), container.clone());
        tokio::spawn(async move {
            if let Some(runtime) = runtime {
                service.wait_for_end(runtime).await;
            }
            let Some(container) = service.lock(&container).await else { return };
            if container.status() == ContainerStatus::Creating && !container.exists().await {
                runtime_failure::log_unreported(&service, &container.record(), "create");
            }
            Box::pin(service.reconcile(&container)).await;
        });
    }

    /// Waits for the process that was creating a container when the previous `nrid` ended, if it
    /// still runs, and then reconciles the container.
    pub fn follow_caller(self: &Arc<Self>, container: &Arc<Container>) {
        let record = container.record();
        let may_run = record.by_run || record.status == ContainerStatus::Creating;
        let Some(caller) = record.caller.filter(|_| may_run) else { return };
        self.follow_run(container, Some(caller));
    }

    /// Waits until a process has ended. A process that cannot be opened is checked in intervals.
    pub async fn wait_for_end(&self, process: ProcessIdentity) {
        loop {
            let Ok(_permit) = self.process.descriptors.pidfd() else {
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
