//! Detection of exits. No verb is called when a container's first process ends, so `nrid` waits for
//! the end with a pidfd.

use crate::{
    host::process::{Process, start_time},
    service::Service,
    state::{container::Container, record::Record, status::ContainerStatus},
};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// Time that `nrid` waits for the report of a start after the started process has ended. The
/// `poststart` hook runs concurrently with the process, and takes milliseconds on a host that is
/// not overloaded.
const START_REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval at which the record is checked for that report.
const START_REPORT_POLL: Duration = Duration::from_millis(5);

impl Service {
    /// Watches the container's first process, if it is known; it may have ended already.
    pub fn watch(self: &Arc<Self>, container: &Arc<Container>) {
        let record = container.record();
        let Some(pid) = record.pid else { return };
        container.watch_oom();
        // The start time is compared after the pidfd is open, which therefore refers to the
        // recorded process.
        let process = Process::open(pid)
            .filter(|_| record.start_time.is_some() && start_time(pid) == record.start_time)
            .map(Arc::new);
        if let Some(process) = &process {
            container.set_process(process.clone());
        }
        let (service, container) = (self.clone(), container.clone());
        tokio::spawn(async move {
            if let Some(process) = process {
                process.ended().await;
                process.reaped().await;
            }
            service.exited(&container, pid).await;
        });
    }

    async fn exited(&self, container: &Container, pid: i32) {
        self.wait_for_start(container).await;
        let _lock = self.locks.container(&container.key()).await;
        if self.registry.contains(container) && container.record().pid == Some(pid) {
            self.stopped(container).await;
        }
    }

    /// Waits until the hook has reported the start of a container that was created by `run`: a
    /// short-lived process may end before the report.
    pub(super) async fn wait_for_start(&self, container: &Container) {
        let deadline = Instant::now() + START_REPORT_TIMEOUT;
        let is_expected = |r: Record| {
            r.hooked && matches!(r.status, ContainerStatus::Created | ContainerStatus::Starting)
        };
        while is_expected(container.record()) && Instant::now() < deadline {
            sleep(START_REPORT_POLL).await;
        }
    }
}
