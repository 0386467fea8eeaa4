//! A known container: its record, and state that is in memory only.

use crate::{
    cgroup::{
        oom::{self, OomWatch},
        oom_events::OomMonitor,
    },
    host::{
        descriptors::DescriptorPermit,
        mount_namespace::MountNamespace,
        process::{Process, ProcessIdentity},
        runtime::LookUpError,
    },
    state::{
        key::ContainerKey,
        record::Record,
        status::{ContainerStatus, RuntimeProgress},
    },
};
use parking_lot::{Mutex, MutexGuard};
use std::{
    ops::Deref,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};
use tokio::sync::{Mutex as AsyncMutex, Notify, OwnedMutexGuard};

/// A known container.
#[derive(Debug)]
pub struct Container {
    names: ContainerNames,
    record: Mutex<Arc<Record>>,
    volatile: Mutex<Volatile>,
    /// See [`UpdateLock`].
    update_lock: Arc<AsyncMutex<()>>,
    update_retried: Notify,
    watch: Mutex<ProcessWatch>,
    oom: OnceLock<OomWatch>,
}

/// The names of a container, which never change.
#[derive(Debug)]
pub(super) struct ContainerNames {
    pub(super) key: ContainerKey,
    pub(super) nri_id: String,
    pub(super) pod_id: String,
    pub(super) hook_name: String,
    /// Path of the cgroup, if the OCI config says it.
    pub(super) cgroup: Option<PathBuf>,
    is_sandbox: bool,
}

impl ContainerNames {
    fn of(record: &Record) -> Self {
        Self {
            key: record.key.clone(),
            nri_id: record.nri_id().to_owned(),
            pod_id: record.pod_id.clone(),
            hook_name: record.key.hook_name(record.incarnation),
            cgroup: record.configured_cgroup(),
            is_sandbox: record.sandbox,
        }
    }
}

/// State that is not on disk. The next `nrid` determines this state again.
#[derive(Debug, Default)]
struct Volatile {
    runtime: RuntimeProgress,
    /// Whether the resources set by plugins must be enforced before the start, because they were
    /// not effective after a creation that no wrapper reported.
    enforcement_pending: bool,
    /// Number of `delete` verbs in progress.
    deletes: usize,
    /// Time when a call of the runtime's `update` last reached its time limit.
    runtime_hung_at: Option<Instant>,
    /// The containers that plugins have updated for the creation of this one.
    updated: Vec<Arc<Container>>,
}

/// The descriptor by which the first process is watched.
#[derive(Debug, Default)]
enum ProcessWatch {
    /// No descriptor is open or reserved.
    #[default]
    None,
    /// The process is not known yet; its descriptor is reserved.
    Expected(DescriptorPermit),
    /// The process is watched.
    Open { process: Arc<Process>, _descriptor: DescriptorPermit },
}

/// A container whose resources only the holder updates: updates are made one after the other.
#[derive(Debug)]
pub struct UpdateLock {
    container: Arc<Container>,
    _guard: OwnedMutexGuard<()>,
}

impl Deref for UpdateLock {
    type Target = Arc<Container>;

    fn deref(&self) -> &Arc<Container> {
        &self.container
    }
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
            names: ContainerNames::of(&record),
            record: Mutex::new(Arc::new(record)),
            volatile: Mutex::default(),
            update_lock: Arc::default(),
            update_retried: Notify::new(),
            watch: Mutex::default(),
            oom: OnceLock::new(),
        })
    }

    /// Waits until no other task updates the resources.
    pub async fn lock_update(self: &Arc<Self>) -> UpdateLock {
        let guard = self.update_lock.clone().lock_owned().await;
        UpdateLock { container: self.clone(), _guard: guard }
    }

    /// Returns the lock, unless another task has it.
    pub fn try_lock_update(self: &Arc<Self>) -> Option<UpdateLock> {
        let guard = self.update_lock.clone().try_lock_owned().ok()?;
        Some(UpdateLock { container: self.clone(), _guard: guard })
    }

    /// Returns the container's record as it is now. Later changes do not affect the returned value.
    pub fn record(&self) -> Arc<Record> {
        self.lock_record().clone()
    }

    /// Locks the record for the registry's changes. The guard is never held across an await.
    pub(super) fn lock_record(&self) -> MutexGuard<'_, Arc<Record>> {
        self.record.lock()
    }

    /// Returns the names.
    pub(super) fn names(&self) -> &ContainerNames {
        &self.names
    }

    /// Returns runtime root and id.
    pub fn key(&self) -> &ContainerKey {
        &self.names.key
    }

    /// Returns the name by which hooks report the container; it is that of one creation.
    pub fn hook_name(&self) -> &str {
        &self.names.hook_name
    }

    /// Whether the container is its pod's sandbox.
    pub fn is_sandbox(&self) -> bool {
        self.names.is_sandbox
    }

    /// Returns the status as plugins know it.
    pub fn status(&self) -> ContainerStatus {
        self.lock_record().status
    }

    /// Records the first process, in memory only. Returns whether the record changed.
    pub fn set_first_process(&self, pid: i32) -> bool {
        Arc::make_mut(&mut self.lock_record()).set_process(pid)
    }

    /// Records that plugins have agreed to the start of a created container. If the runtime then
    /// fails to start the container, the start may be repeated, and plugins receive no second
    /// request.
    pub fn set_starting(&self) {
        let mut record = self.lock_record();
        if record.status == ContainerStatus::Created {
            // Not saved: both statuses have the same form on disk.
            Arc::make_mut(&mut record).status = ContainerStatus::Starting;
        }
    }

    fn volatile(&self) -> MutexGuard<'_, Volatile> {
        self.volatile.lock()
    }

    /// Returns the progress of the runtime, as far as it is known.
    pub fn runtime_progress(&self) -> RuntimeProgress {
        self.volatile().runtime
    }

    /// Records that a call of the runtime's `update` reached its time limit.
    pub fn set_runtime_hung(&self) {
        self.volatile().runtime_hung_at = Some(Instant::now());
    }

    /// Whether a call of the runtime's `update` has reached its time limit in this time.
    pub fn runtime_hung_within(&self, time: Duration) -> bool {
        self.volatile().runtime_hung_at.is_some_and(|at| at.elapsed() < time)
    }

    /// Adds a container that plugins have updated for the creation of this one.
    pub fn add_updated(&self, container: Arc<Container>) {
        self.volatile().updated.push(container);
    }

    /// Returns the containers that plugins have updated for the creation of this one, and forgets
    /// them.
    pub fn take_updated(&self) -> Vec<Arc<Container>> {
        std::mem::take(&mut self.volatile().updated)
    }

    /// Records the progress of the runtime, which never decreases.
    pub fn set_runtime_progress(&self, progress: RuntimeProgress) {
        let mut volatile = self.volatile();
        volatile.runtime = volatile.runtime.max(progress);
    }

    /// Whether the runtime has a directory for the container now. If so, also records
    /// [`RuntimeProgress::Present`], so that the container can count as vanished later.
    pub async fn exists(&self) -> bool {
        let record = self.record();
        let found = record.runtime.look_up(&record.key.id).await;
        self.mark_if_found(&found);
        // If the directory cannot be read, the container may still exist.
        !matches!(found, Ok(false))
    }

    fn mark_if_found(&self, found: &Result<bool, LookUpError>) {
        if matches!(found, Ok(true)) {
            self.set_runtime_progress(RuntimeProgress::Present);
        }
    }

    /// Sets the mount namespace of the container's runtime; `None` if it is that of `nrid`.
    pub fn set_namespace(&self, namespace: Option<Arc<MountNamespace>>) {
        Arc::make_mut(&mut self.lock_record()).runtime.set_namespace(namespace);
    }

    /// Whether the runtime had a directory for the container at an earlier check, and has none now.
    /// A container whose directory was never found has not vanished: its runtime may keep
    /// containers in another directory than `nrid` expects.
    pub async fn has_vanished(&self) -> bool {
        !self.exists().await && self.runtime_progress() >= RuntimeProgress::Present
    }

    /// The same as [`Container::has_vanished`], but blocks while the file system hangs.
    pub fn has_vanished_now(&self) -> bool {
        let record = self.record();
        let found = record.runtime.look_up_now(&record.key.id);
        self.mark_if_found(&found);
        matches!(found, Ok(false)) && self.runtime_progress() >= RuntimeProgress::Present
    }

    /// Whether the runtime has deleted the container; plugins may not be notified yet.
    pub fn is_deleted(&self) -> bool {
        self.runtime_progress() == RuntimeProgress::Deleted
    }

    /// Whether the process that creates the container is alive, and the runtime has not made the
    /// container's directory yet. The missing directory then does not mean that the container was
    /// deleted.
    ///
    /// # Errors
    /// The process is alive, and the directory cannot be looked up.
    pub async fn is_being_created(&self) -> Result<bool, LookUpError> {
        let record = self.record();
        if record.status != ContainerStatus::Creating
            || !record.caller.is_some_and(ProcessIdentity::is_alive)
        {
            return Ok(false);
        }
        let found = record.runtime.look_up(&record.key.id).await;
        self.mark_if_found(&found);
        found.map(|found| !found)
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

    /// Notes that a wrapper requests an update. If the pending update is by the same wrapper, the
    /// previous `nrid` did not reply to the wrapper, so the wrapper has not called its runtime.
    /// [`Container::update_retried`] then returns.
    pub fn note_update_request(&self, caller: Option<ProcessIdentity>) {
        let pending = self.lock_record().pending_update.as_ref().and_then(|update| update.caller);
        if pending.is_some() && pending == caller {
            self.update_retried.notify_one();
        }
    }

    /// Waits until the wrapper of the pending update requests the update again.
    pub async fn update_retried(&self) {
        self.update_retried.notified().await;
    }

    /// Returns the first process, while it is watched.
    pub fn process(&self) -> Option<Arc<Process>> {
        match &*self.watch() {
            ProcessWatch::Open { process, .. } => Some(process.clone()),
            _ => None,
        }
    }

    /// Sets the first process, and returns it.
    pub fn set_process(&self, process: Process, descriptor: DescriptorPermit) -> Arc<Process> {
        let process = Arc::new(process);
        *self.watch() = ProcessWatch::Open { process: process.clone(), _descriptor: descriptor };
        process
    }

    /// Keeps a permit for the descriptor of the first process, which does not exist yet.
    pub fn keep_descriptor(&self, descriptor: DescriptorPermit) {
        *self.watch() = ProcessWatch::Expected(descriptor);
    }

    /// Returns the permit of [`Container::keep_descriptor`], unless the descriptor is open.
    pub fn take_descriptor(&self) -> Option<DescriptorPermit> {
        let mut watch = self.watch();
        match std::mem::take(&mut *watch) {
            ProcessWatch::Expected(descriptor) => Some(descriptor),
            other => {
                *watch = other;
                None
            }
        }
    }

    /// Releases the descriptor of the first process, which has ended.
    pub fn release_process(&self) {
        *self.watch() = ProcessWatch::None;
    }

    fn watch(&self) -> MutexGuard<'_, ProcessWatch> {
        self.watch.lock()
    }

    /// Starts to watch for OOM kills. Later calls have no effect.
    pub fn watch_oom(&self, monitor: &OomMonitor) {
        self.oom.get_or_init(|| {
            let record = self.record();
            OomWatch::start(monitor, &record.key.id, record.cgroup().as_ref())
        });
    }

    /// Whether the kernel killed a process of the container because of its memory limit.
    /// `wait_status` is the wait status of the first process, if known.
    pub async fn was_oom_killed(&self, wait_status: Option<i32>) -> bool {
        let dirs = self.record().cgroup();
        let Some(watch) = self.oom.get() else { return oom::killed(dirs.as_ref()) };
        watch.killed(dirs.as_ref(), wait_status).await
    }
}
