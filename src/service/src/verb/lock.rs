//! The container lock of a verb, and processes that are stopped (SIGSTOP, Ctrl-Z) while they have
//! begun one.
//!
//! A verb holds the lock until its wrapper has reported the result, or its process has ended. A
//! stopped process does neither, maybe for ever. Other verbs of the container are then refused, and
//! `delete --force` kills the process, as it kills that of the container. The process cannot go on
//! later and call the runtime: its creation is undone, as after any wrapper that was killed.

use crate::{
    channel::Channel,
    error::{CallerError, Error},
    host::process::ProcessIdentity,
    service::Service,
    state::{
        container::Container, key::ContainerKey, locks::ContainerLock, status::ContainerStatus,
    },
    verb::request::VerbRequest,
};
use std::{pin::pin, time::Duration};
use tokio::time::timeout;

/// Time after which a verb looks whether the process that it waits for is stopped. Before, that
/// process may be stopped for a moment only.
const STOPPED_TIMEOUT: Duration = Duration::from_secs(10);

/// The same for `delete --force`, whose callers wait for less time.
const FORCED_TIMEOUT: Duration = Duration::from_secs(2);

/// Time that a `delete` waits for the container lock. Afterwards it proceeds without the lock,
/// because a container must always be deletable. A plugin that has not replied by then is unlikely
/// to reply at all.
const DELETE_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for a killed process to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

impl Service {
    /// Waits for the lock of a verb's container.
    ///
    /// # Errors
    /// A process that is stopped holds it.
    pub async fn lock_for(
        &self,
        request: &VerbRequest,
        channel: &Channel,
    ) -> Result<ContainerLock, Error> {
        let locks = &self.verbs.locks;
        let mut waiting = pin!(locks.container(&request.key));
        let lock = loop {
            if let Ok(lock) = timeout(STOPPED_TIMEOUT, &mut waiting).await {
                break lock;
            }
            if let Some(ProcessIdentity { pid, .. }) = self.stopped_holder(&request.key) {
                return Err(CallerError::Stopped { pid }.into());
            }
        };
        lock.set_holder(channel.peer().ok().flatten());
        Ok(lock)
    }

    /// Waits for the lock of the container of a `delete`, for a limited time. `--force` kills a
    /// process that is stopped and holds it.
    pub async fn lock_for_delete(
        &self,
        request: &VerbRequest,
        channel: &Channel,
    ) -> Option<ContainerLock> {
        let wait = |limit| timeout(limit, self.verbs.locks.container(&request.key));
        let mut lock = None;
        if request.begin.flag {
            lock = wait(FORCED_TIMEOUT).await.ok();
            if lock.is_none()
                && let Some(holder) = self.stopped_holder(&request.key)
            {
                self.kill_stopped(holder, &request.key).await;
            }
        }
        if lock.is_none() {
            lock = wait(DELETE_LOCK_TIMEOUT).await.ok();
        }
        lock.inspect(|lock| lock.set_holder(channel.peer().ok().flatten()))
    }

    /// Kills the process that creates a container and is stopped, if it does not hold the lock:
    /// that of a `run`, or of a verb of the previous `nrid`.
    pub async fn kill_stopped_creation(&self, container: &Container) {
        let record = container.record();
        if record.status == ContainerStatus::Creating
            && let Some(caller) = record.caller.filter(|caller| caller.is_stopped())
        {
            self.kill_stopped(caller, &record.key).await;
        }
    }

    fn stopped_holder(&self, key: &ContainerKey) -> Option<ProcessIdentity> {
        self.verbs.locks.holder(key).filter(|holder| holder.is_stopped())
    }

    async fn kill_stopped(&self, process: ProcessIdentity, key: &ContainerKey) {
        let (container, pid) = (&key.id, process.pid);
        match process.kill() {
            Ok(()) => {
                tracing::warn!(container, pid, "stopped process killed by delete --force");
                let _ = timeout(KILL_TIMEOUT, self.wait_for_end(process)).await;
            }
            Err(error) => {
                tracing::warn!(container, pid, %error, "cannot kill a stopped process");
            }
        }
    }
}
