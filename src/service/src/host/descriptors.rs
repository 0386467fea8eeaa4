//! Shares of the limit of open files of this process.
//!
//! Each container needs one descriptor: the pidfd that reports the exit of its first process.
//! Watches for OOM kills are optional. Both have a limited share; the rest is reserved for
//! connections, plugins, records and calls to runtimes, so that `nrid` can always be reached.

use crate::host::sys;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    io,
    sync::{Arc, OnceLock},
};
use tokio::{
    process::Command,
    sync::{OwnedSemaphorePermit, Semaphore},
};

/// Part of the limit that containers may not take: a quarter, and at most [`MAX_RESERVE`].
const RESERVE: usize = 4;

/// Maximum number of descriptors that containers may not take: hundreds of requests at once, each
/// with a connection, a bundle and the pipes of a runtime.
const MAX_RESERVE: usize = 2048;

/// Part of the containers' descriptors that watches for OOM kills may take: an eighth.
const OPTIONAL: usize = 8;

/// Part of the reserve that control connections may take, since each request has further
/// descriptors: half.
const CONNECTIONS: usize = 2;

/// Value that replaces a larger limit, or no limit; the kernel's own limit (`fs.nr_open`) is lower
/// by default.
const MAX_LIMIT: u64 = 1 << 30;

/// The limit with which this process was started. A property of the process, like the limit itself.
static INHERITED: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit of open files to the hard limit. Must be called before a second thread
/// exists.
///
/// # Errors
/// The limit cannot be set.
pub fn raise_limit() -> io::Result<()> {
    let inherited = *INHERITED.get_or_init(|| getrlimit(Resource::Nofile));
    set_limit(Rlimit { current: inherited.maximum, ..inherited })
}

/// Restores the limit with which this process was started, before another program replaces it.
///
/// # Errors
/// The limit cannot be set.
pub fn restore_limit() -> io::Result<()> {
    INHERITED.get().map_or(Ok(()), |inherited| set_limit(*inherited))
}

/// Restores, in the program that `command` starts, the soft limit with which this process was
/// started: programs that use `select`, or that visit all descriptors up to the limit, need a low
/// limit.
pub fn restore_limit_in(command: &mut Command) {
    if let Some(inherited) = INHERITED.get().filter(|limit| limit.current != limit.maximum) {
        let inherited = *inherited;
        sys::before_exec(command, move || set_limit(inherited));
    }
}

/// Returns the soft limit with which this process was started, if it has been raised since.
pub fn inherited_soft_limit() -> Option<u64> {
    INHERITED.get().filter(|limit| limit.current != limit.maximum)?.current
}

fn set_limit(limit: Rlimit) -> io::Result<()> {
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// Permit for a descriptor of a container; released when it is dropped.
#[derive(Debug)]
pub struct DescriptorPermit {
    _permit: OwnedSemaphorePermit,
}

impl DescriptorPermit {
    fn of(permit: OwnedSemaphorePermit) -> Self {
        Self { _permit: permit }
    }
}

/// The shares of the limit of open files.
#[derive(Debug)]
pub struct Descriptors {
    limit: usize,
    /// Number of control connections that are served at once.
    pub connections: usize,
    /// Number of pidfds that may be open.
    pidfd_share: usize,
    pidfds: Arc<Semaphore>,
    oom_watches: Arc<Semaphore>,
}

/// The limit of open files does not allow another pidfd.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the limit of {limit} open files allows nrid to watch {containers} containers, and so \
     many exist already: raise LimitNOFILE of nri-container-runtime.service, or the hard limit of \
     the service that starts nrid, then run nrictl stop"
)]
pub struct DescriptorLimit {
    /// The limit of open files.
    pub limit: usize,
    /// Number of containers that can be watched.
    pub containers: usize,
}

impl Descriptors {
    /// Shares out the current limit of this process.
    pub fn of_this_process() -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(MAX_LIMIT).min(MAX_LIMIT);
        Self::of_limit(usize::try_from(limit).unwrap_or(usize::MAX))
    }

    fn of_limit(limit: usize) -> Self {
        let reserve = (limit / RESERVE).min(MAX_RESERVE);
        let containers = limit - reserve;
        let optional = containers / OPTIONAL;
        let semaphore =
            |permits: usize| Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        Self {
            limit,
            connections: (reserve / CONNECTIONS).max(1),
            pidfd_share: containers - optional,
            pidfds: semaphore(containers - optional),
            oom_watches: semaphore(optional),
        }
    }

    /// Returns a permit to open a pidfd.
    ///
    /// # Errors
    /// The share of pidfds is exhausted.
    pub fn pidfd(&self) -> Result<DescriptorPermit, DescriptorLimit> {
        let permit = self.pidfds.clone().try_acquire_owned();
        permit.map(DescriptorPermit::of).map_err(|_| self.limit_reached())
    }

    /// Waits for a permit to open a pidfd. Waiting callers are served before new containers.
    pub async fn wait_for_pidfd(&self) -> Option<DescriptorPermit> {
        self.pidfds.clone().acquire_owned().await.ok().map(DescriptorPermit::of)
    }

    /// Returns a permit to open a descriptor that watches for OOM kills; `None` if the share is
    /// exhausted.
    pub fn oom_watch(&self) -> Option<DescriptorPermit> {
        self.oom_watches.clone().try_acquire_owned().ok().map(DescriptorPermit::of)
    }

    /// Returns the error of an exhausted share of pidfds.
    fn limit_reached(&self) -> DescriptorLimit {
        DescriptorLimit { limit: self.limit, containers: self.pidfd_share }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn containers_leave_a_reserve_and_a_released_permit_goes_to_a_waiter() {
        // Three quarters of the limit (above 8192: the limit less 2048), less an eighth of that.
        // Connections may take half of the rest.
        for (limit, containers, connections) in
            [(256, 168, 32), (1024, 672, 128), (20_000, 15_708, 1024)]
        {
            let shares = Descriptors::of_limit(limit);
            assert_eq!((shares.pidfd_share, shares.connections), (containers, connections));
        }
        let descriptors = Descriptors::of_limit(4);
        let permits: Vec<_> = std::iter::from_fn(|| descriptors.pidfd().ok()).collect();
        // One of the four descriptors is reserved.
        assert_eq!(permits.len(), 3);
        let waiting = descriptors.wait_for_pidfd();
        tokio::pin!(waiting);
        assert!(is_pending(waiting.as_mut()).await);
        drop(permits);
        assert!(waiting.await.is_some());
    }

    async fn is_pending<F: Future>(mut future: std::pin::Pin<&mut F>) -> bool {
        std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_pending()))
            .await
    }
}
