//! Exits: a container's own end makes no call of the runtime, so its first process is watched
//! through a pidfd.

use crate::{
    service::{DELETE_PATIENCE, Service},
    state::{
        record::{Phase, Record, start_time},
        registry::{Container, LaneGuard},
    },
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::{
    os::fd::OwnedFd,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::io::unix::AsyncFd;

/// How long the runtime's word of a start may come after the end of what it started.
const LATE: Duration = Duration::from_secs(5);

/// How long a parent may leave its child unreaped: on a busy host for some time.
const UNREAPED: Duration = Duration::from_millis(500);

/// A process that can be waited for.
#[derive(Debug)]
pub struct Process(AsyncFd<OwnedFd>);

impl Process {
    /// A process; `None` if there is none of this id.
    pub fn open(pid: i32) -> Option<Self> {
        let fd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::NONBLOCK).ok()?;
        crate::host::sys::wait_readable(fd).ok().map(Self)
    }

    /// How it ended, if the kernel tells: from Linux 6.15 on, after its parent has reaped it. A
    /// `wait` status.
    pub fn wait_status(&self) -> Option<i32> {
        crate::host::sys::pidfd_exit_status(self.0.get_ref()).ok().flatten()
    }

    /// Waits until the parent has reaped it, so that its status is known; not for long, since some
    /// never do, and not where the kernel does not tell. It has ended.
    pub async fn reaped(&self) {
        let deadline = tokio::time::Instant::now() + UNREAPED;
        while matches!(crate::host::sys::pidfd_exit_status(self.0.get_ref()), Ok(None))
            && tokio::time::Instant::now() < deadline
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until it has ended.
    pub async fn ended(&self) {
        // An error would mean that the runtime of our tasks is gone.
        let _ = self.0.readable().await;
    }
}

impl Service {
    /// Watches the container's first process, if it is known. The end may come before this call.
    pub fn watch(self: &Arc<Self>, container: &Arc<Container>) {
        let record = container.record();
        let Some(pid) = record.pid else { return };
        container.watch_oom();
        // The pidfd first, then the check that the process is still the same: so it cannot be
        // another one's.
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

    async fn exited(&self, container: &Arc<Container>, pid: i32) {
        let key = container.key();
        self.wait_for_start(container).await;
        let _lane = self.lane(&key).await;
        let same = self.registry.get(&key).is_some_and(|known| Arc::ptr_eq(&known, container));
        if same && container.record().pid == Some(pid) {
            self.stop_if_owed(container).await;
        }
    }

    /// Where hooks report, the start is told by one that runs beside the process: a short life may
    /// end before.
    pub(crate) async fn wait_for_start(&self, container: &Container) {
        let deadline = tokio::time::Instant::now() + LATE;
        let owed = |r: Record| r.hooked && r.phase == Phase::Created;
        while owed(container.record()) && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Follows the process that was the wrapper and is the runtime's `run` now, and settles what it
    /// leaves.
    pub fn follow_run(
        self: &Arc<Self>,
        container: &Arc<Container>,
        caller: Option<Process>,
        bundle: Option<LaneGuard>,
    ) {
        let (service, container) = (self.clone(), container.clone());
        tokio::spawn(async move {
            if let Some(process) = caller {
                if bundle.is_some() {
                    tokio::select! {
                        () = process.ended() => {}
                        () = read_by_runtime(&container) => {}
                    }
                }
                drop(bundle);
                process.ended().await;
            } else if bundle.is_some() {
                // Its process is one of a namespace that we do not see.
                let _ = tokio::time::timeout(DELETE_PATIENCE, read_by_runtime(&container)).await;
                drop(bundle);
            }
            let key = container.key();
            let _lane = service.lane(&key).await;
            let same =
                service.registry.get(&key).is_some_and(|known| Arc::ptr_eq(&known, &container));
            if same {
                service.settle(&container).await;
            }
        });
    }

    /// Goes on where an `nrid` ended while the container was being created, or while `run` held it:
    /// whoever creates it may still be at work.
    pub fn follow_caller(self: &Arc<Self>, container: &Arc<Container>) {
        let record = container.record();
        let Some(caller) =
            record.caller.filter(|_| record.by_run || record.phase == Phase::Creating)
        else {
            return;
        };
        // The pidfd first, then the check that the process is still the same.
        let process = Process::open(caller.pid).filter(|_| caller.is_alive());
        self.follow_run(container, process, None);
    }

    /// Takes over from the runtime what nobody has reported. The caller holds the lane.
    pub async fn settle(self: &Arc<Self>, container: &Arc<Container>) {
        let record = container.record();
        // Seen for the look at all of them, where the runtime cannot tell a state: it was killed
        // before it kept one.
        if !container.is_there() {
            return self.finish(container).await;
        }
        // Detached (or kept): what hooks have not told is told now.
        let Ok(state) = record.runtime.state(&record.key.id).await else { return };
        let told = record.phase;
        if told == Phase::Creating {
            let pid = (state.pid > 0).then_some(state.pid);
            // Who created it is not there to be refused: who starts it is.
            let is_amiss = self.enforce_created(container, pid).is_err();
            container.is_amiss.store(is_amiss, Ordering::SeqCst);
            self.created(container, pid).await;
        }
        if state.status == "created" {
            // Its start is still to come, by itself.
            return;
        }
        if told == Phase::Creating
            && let Err(error) = self.starting(container).await
        {
            tracing::warn!(%error, container = record.key.id, "the container has started already");
        }
        if told < Phase::Running {
            self.running(container).await;
        }
        if state.status == "stopped" || container.record().process_is_gone() {
            self.stop_if_owed(container).await;
        }
    }
}

/// A runtime has read its document when it begins to keep a state.
async fn read_by_runtime(container: &Container) {
    let record = container.record();
    while !container.is_document_read()
        && !container.is_gone()
        && !record.runtime.has(&record.key.id)
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_a_process_is_noticed() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::open(child.id() as i32).unwrap();
        child.kill().unwrap();
        tokio::time::timeout(Duration::from_secs(10), process.ended()).await.unwrap();
        child.wait().unwrap();
        assert!(Process::open(child.id() as i32).is_none());
    }
}
