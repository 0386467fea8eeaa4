//! A known container: its record, and state that is in memory only.

use crate::{
    cgroup::oom::{self, OomWatch},
    host::process::{Process, ProcessIdentity},
    state::{
        key::ContainerKey,
        record::Record,
        status::{ContainerStatus, RuntimeProgress},
    },
};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::{Mutex as AsyncMutex, Notify};

/// A known container.
#[derive(Debug)]
pub struct Container {
    record: Mutex<Record>,
    volatile: Mutex<Volatile>,
    /// Held while resources are updated, so that updates are made one after the other.
    pub update_lock: Arc<AsyncMutex<()>>,
    update_retried: Notify,
    process: Mutex<Option<Arc<Process>>>,
    oom: OnceLock<OomWatch>,
}

/// State that is not on disk: the next `nrid` determines it again.
#[derive(Debug, Default)]
struct Volatile {
    runtime: RuntimeProgress,
    /// Whether the resources set by plugins must be enforced before the start, because they were
    /// not effective after a creation that no wrapper reported.
    enforcement_pending: bool,
    /// Number of `delete` verbs in progress.
    deletes: usize,
}

/// A `delete` in progress.
#[derive(Debug)]
pub struct Deleting(Arc<Container>);

impl Drop for Deleting {
    fn drop(&mut self) {
        self.0.volatile().deletes -= 1;
    }
}

impl Container {
    /// Creates a container with this record.
    pub fn new(record: Record) -> Arc<Self> {
        Arc::new(Self {
            record: Mutex::new(record),
            volatile: Mutex::default(),
            update_lock: Arc::default(),
            update_retried: Notify::new(),
            process: Mutex::default(),
            oom: OnceLock::new(),
        })
    }

    /// Returns a copy of the record.
    pub fn record(&self) -> Record {
        self.lock_record().clone()
    }

    /// Locks the record, for reading without a copy and for the registry's changes. The guard is
    /// never held across an await. A poisoned lock is usable: the record is complete at every point
    /// where its holder could panic.
    pub(super) fn lock_record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runtime root and id.
    pub fn key(&self) -> ContainerKey {
        self.lock_record().key.clone()
    }

    /// Status as plugins know it.
    pub fn status(&self) -> ContainerStatus {
        self.lock_record().status
    }

    /// Whether the container is in this pod, is not its sandbox, and is not stopped.
    pub fn is_live_member_of(&self, pod: &str) -> bool {
        let record = self.lock_record();
        record.pod_id == pod && !record.sandbox && record.status < ContainerStatus::Stopped
    }

    /// Records that plugins have agreed to the start of a created container: a start that fails
    /// later may be tried again, and plugins are notified once.
    pub fn set_starting(&self) {
        let mut record = self.lock_record();
        if record.status == ContainerStatus::Created {
            // Not saved: both statuses have the same form on disk.
            record.status = ContainerStatus::Starting;
        }
    }

    fn volatile(&self) -> MutexGuard<'_, Volatile> {
        self.volatile.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Progress of the runtime, as far as it is known.
    pub fn runtime_progress(&self) -> RuntimeProgress {
        self.volatile().runtime
    }

    /// Records the progress of the runtime, which never decreases.
    pub fn set_runtime_progress(&self, progress: RuntimeProgress) {
        let mut volatile = self.volatile();
        volatile.runtime = volatile.runtime.max(progress);
    }

    /// Whether the runtime has a directory for the container now.
    pub fn exists(&self) -> bool {
        let record = self.record();
        let exists = record.runtime.has(&record.key.id);
        if exists {
            self.set_runtime_progress(RuntimeProgress::Present);
        }
        exists
    }

    /// Whether the runtime had a directory for the container at an earlier check, and has none now.
    /// A runtime may keep its containers elsewhere than `nrid` expects, so one that was never seen
    /// has not vanished.
    pub fn has_vanished(&self) -> bool {
        !self.exists() && self.runtime_progress() >= RuntimeProgress::Present
    }

    /// Whether the runtime has deleted the container; plugins may not be notified yet.
    pub fn is_deleted(&self) -> bool {
        self.runtime_progress() == RuntimeProgress::Deleted
    }

    /// Whether the process that creates the container is alive, and the runtime has not made the
    /// container's directory yet. The missing directory then does not mean that the container was
    /// deleted.
    pub fn is_being_created(&self) -> bool {
        let record = self.record();
        record.status == ContainerStatus::Creating
            && record.caller.is_some_and(ProcessIdentity::is_alive)
            && !self.exists()
    }

    /// Counts a `delete` as in progress until the returned value is dropped.
    pub fn start_delete(self: &Arc<Self>) -> Deleting {
        self.volatile().deletes += 1;
        Deleting(self.clone())
    }

    /// Whether a `delete` is in progress.
    pub fn is_being_deleted(&self) -> bool {
        self.volatile().deletes > 0
    }

    /// Whether the resources set by plugins must be enforced before the start.
    pub fn is_enforcement_pending(&self) -> bool {
        self.volatile().enforcement_pending
    }

    /// Records whether the resources set by plugins must be enforced before the start.
    pub fn set_enforcement_pending(&self, pending: bool) {
        self.volatile().enforcement_pending = pending;
    }

    /// Records that a wrapper requests an update. If the same wrapper runs the pending update, it
    /// had no reply from the previous `nrid`, and has not called its runtime.
    pub fn note_update_request(&self, caller: Option<ProcessIdentity>) {
        let pending = self.lock_record().pending_update.as_ref().and_then(|update| update.caller);
        if pending.is_some() && pending == caller {
            self.update_retried.notify_one();
        }
    }

    /// Waits until the wrapper that runs the pending update requests it again.
    pub async fn update_retried(&self) {
        self.update_retried.notified().await;
    }

    /// The first process, once it is watched.
    pub fn process(&self) -> Option<Arc<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the first process.
    pub fn set_process(&self, process: Arc<Process>) {
        *self.process.lock().unwrap_or_else(PoisonError::into_inner) = Some(process);
    }

    /// Starts to watch for OOM kills, at the first call.
    pub fn watch_oom(&self) {
        self.oom.get_or_init(|| {
            let record = self.record();
            OomWatch::start(&record.key.id, record.cgroup().as_ref())
        });
    }

    /// Whether the kernel killed a process of the container because of its memory limit.
    /// `wait_status`: how the first process ended, if that is known.
    pub async fn was_oom_killed(&self, wait_status: Option<i32>) -> bool {
        let dirs = self.record().cgroup();
        let Some(watch) = self.oom.get() else { return oom::killed(dirs.as_ref()) };
        watch.killed(dirs.as_ref(), wait_status).await
    }
}
