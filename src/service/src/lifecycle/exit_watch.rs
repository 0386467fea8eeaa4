//! Detection of exits. No verb is called when a container's first process exits, so `nrid` waits
//! for the exit with a pidfd. A process that cannot be opened is checked at intervals until it can
//! be: a failure to open it does not show that it has ended.

use crate::{
    host::{
        descriptors::{DescriptorLimit, DescriptorPermit},
        process::{Process, ProcessStat},
    },
    service::Service,
    state::{container::Container, record::Record, status::ContainerStatus},
};
use std::{io, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// Time that `nrid` waits for the report of a start after the started process has ended. The
/// `poststart` hook runs concurrently with the process, and takes milliseconds on a host that is
/// not overloaded.
const START_REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval at which `nrid` checks the record for the report of the start.
const START_REPORT_POLL: Duration = Duration::from_millis(5);

/// Interval of checks of a process that cannot be opened, doubled until
/// [`MAX_RETRY_INTERVAL`].
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum interval of checks of a process that cannot be opened: 10,000 checks take less than a
/// fiftieth of a CPU.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Reason why the first process of a container cannot be watched.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error(transparent)]
    Limit(#[from] DescriptorLimit),
    #[error(transparent)]
    Process(#[from] io::Error),
}

impl Service {
    /// Watches the container's first process, if its pid is known. The process may have exited.
    pub fn watch(self: &Arc<Self>, container: &Arc<Container>) {
        let Some(pid) = container.record().pid else { return };
        container.watch_oom(&self.oom_monitor);
        let opened = self.open_first_process(container, pid, None);
        let (service, container) = (self.clone(), container.clone());
        tokio::spawn(async move {
            let process = match opened {
                Ok(process) => process,
                Err(error) => Box::pin(service.open_later(&container, pid, error)).await,
            };
            if let Some(process) = process {
                process.wait_for_exit().await;
                process.wait_until_reaped().await;
            }
            // Boxed, because there is a task for each container, and most of them only wait.
            Box::pin(service.on_exited(&container, pid)).await;
        });
    }

    /// Opens the first process of a container; `None` if it has ended and was reaped, or is not to
    /// be watched any more.
    fn open_first_process(
        &self,
        container: &Container,
        pid: i32,
        permit: Option<DescriptorPermit>,
    ) -> Result<Option<Arc<Process>>, WatchError> {
        let record = container.record();
        if record.pid != Some(pid) || !self.registry.contains(container) {
            return Ok(None);
        }
        let is_first = |stat: &ProcessStat| record.start_time.is_none_or(|t| t == stat.start_time);
        let permit = permit.or_else(|| container.take_descriptor());
        let permit = match permit.map_or_else(|| self.process.descriptors.pidfd(), Ok) {
            Ok(permit) => permit,
            Err(limit) => {
                let stat = ProcessStat::of(pid)?.filter(is_first);
                return if stat.is_some_and(|s| !s.has_ended) {
                    Err(limit.into())
                } else {
                    Ok(None)
                };
            }
        };
        let Some(process) = Process::open(pid)? else { return Ok(None) };
        // The start time was read after the pidfd was open. If it is equal, the pidfd refers to
        // the recorded process, and not to a later one with the same pid.
        let start_time = match process.start_time() {
            Some(start_time) => start_time,
            None => match ProcessStat::of(pid)? {
                Some(stat) => stat.start_time,
                None => return Ok(None),
            },
        };
        if record.start_time.is_some_and(|recorded| recorded != start_time) {
            return Ok(None);
        }
        if record.start_time.is_none() {
            self.registry.change(container, |r| r.start_time = Some(start_time));
        }
        Ok(Some(container.set_process(process, permit)))
    }

    /// Opens the first process of a container as soon as that is possible; `None` if it ends
    /// before. The cause is in the log and in the status meanwhile.
    async fn open_later(
        &self,
        container: &Container,
        pid: i32,
        mut error: WatchError,
    ) -> Option<Arc<Process>> {
        let mut interval = RETRY_INTERVAL;
        let problem = |error: &WatchError| {
            self.process.problems.report(format!(
                "exits of containers are noticed up to {MAX_RETRY_INTERVAL:?} late: {error}"
            ))
        };
        let mut _problem = problem(&error);
        let permit = self.process.descriptors.wait_for_pidfd();
        tokio::pin!(permit);
        loop {
            let permit = tokio::select! {
                permit = &mut permit, if matches!(error, WatchError::Limit(_)) => permit,
                () = sleep(interval) => None,
            };
            match self.open_first_process(container, pid, permit) {
                Ok(process) => return process,
                Err(new) => {
                    error = new;
                    _problem = problem(&error);
                }
            }
            interval = (interval * 2).min(MAX_RETRY_INTERVAL);
        }
    }

    /// Records that the first process has exited, unless a verb has done so meanwhile.
    async fn on_exited(&self, container: &Arc<Container>, pid: i32) {
        self.wait_for_start(container).await;
        if let Some(container) = self.lock(container).await
            && container.record().pid == Some(pid)
        {
            self.on_stopped(&container).await;
        }
    }

    /// Waits until the hook has reported the start of a container that was created by `run`: a
    /// short-lived process may end before the report.
    pub(super) async fn wait_for_start(&self, container: &Container) {
        let deadline = Instant::now() + START_REPORT_TIMEOUT;
        let is_expected = |r: Arc<Record>| {
            r.hooked && matches!(r.status, ContainerStatus::Created | ContainerStatus::Starting)
        };
        while is_expected(container.record()) && Instant::now() < deadline {
            sleep(START_REPORT_POLL).await;
        }
    }
}
