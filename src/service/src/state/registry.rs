//! The containers and pods that are known, and the lanes that keep each container's events in
//! order.
//!
//! A lane is held from the beginning of a verb to its end, also while plugins are asked, so nothing
//! that plugins wait for may take one. The records themselves are behind plain mutexes that are
//! never held over anything that waits.

use crate::{
    lifecycle::{
        exit_watch::Process,
        oom::{self, OomWatch},
    },
    resources::cgroups,
    state::{
        record::{Caller, Key, Phase, PodRecord, Record},
        store::{Store, StoreError},
    },
};
use nri_api::proto::{Container as ContainerMessage, ContainerState, PodSandbox};
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};
use tokio::sync::{Mutex as AsyncMutex, Notify, OwnedMutexGuard};

/// A turn in a container's lane.
pub type LaneGuard = OwnedMutexGuard<()>;

/// A known container.
#[derive(Debug)]
pub struct Container {
    record: Mutex<Record>,
    /// Held while its resources are being set, so that one setting follows the other.
    pub setting: Arc<AsyncMutex<()>>,
    deleting: AtomicUsize,
    gone: AtomicBool,
    document_read: AtomicBool,
    seen: AtomicBool,
    start_told: AtomicBool,
    /// The runtime made it while nobody looked, and it does not hold what plugins set.
    pub is_amiss: AtomicBool,
    /// The wrapper whose update is pending asks again: it has not had its answer, and its runtime
    /// has not been called.
    asked_again: Notify,
    process: Mutex<Option<Arc<Process>>>,
    oom: OnceLock<OomWatch>,
}

/// All that is known.
#[derive(Debug)]
pub struct Registry {
    store: Store,
    inner: Mutex<Inner>,
    pods: Mutex<HashMap<String, PodRecord>>,
    entering: Mutex<HashMap<String, usize>>,
    unsaved: Mutex<Unsaved>,
    /// Something could not be written.
    failing: Notify,
}

/// What is newer here than on disk.
#[derive(Debug, Default)]
struct Unsaved {
    containers: HashSet<Key>,
    pods: HashSet<String>,
}

/// A creation that is about to add a container to a pod; the pod has to stay meanwhile.
#[derive(Debug)]
pub struct Entering {
    registry: Arc<Registry>,
    pod: String,
}

impl Drop for Entering {
    fn drop(&mut self) {
        let mut entering = lock(&self.registry.entering);
        if let Some(n) = entering.get_mut(&self.pod) {
            *n -= 1;
            if *n == 0 {
                entering.remove(&self.pod);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Inner {
    containers: HashMap<Key, Arc<Container>>,
    lanes: HashMap<Key, Weak<AsyncMutex<()>>>,
}

impl Container {
    fn new(record: Record) -> Arc<Self> {
        Arc::new(Self {
            record: Mutex::new(record),
            setting: Arc::default(),
            deleting: AtomicUsize::new(0),
            gone: AtomicBool::new(false),
            document_read: AtomicBool::new(false),
            seen: AtomicBool::new(false),
            start_told: AtomicBool::new(false),
            is_amiss: AtomicBool::new(false),
            asked_again: Notify::new(),
            process: Mutex::default(),
            oom: OnceLock::new(),
        })
    }

    /// A copy of its record.
    pub fn record(&self) -> Record {
        lock(&self.record).clone()
    }

    /// Whether it is a container of this pod, other than its sandbox, whose end has not been told.
    pub fn is_live_member_of(&self, pod: &str) -> bool {
        let record = lock(&self.record);
        record.pod_id == pod && !record.sandbox && record.phase < Phase::Stopped
    }

    /// Its key.
    pub fn key(&self) -> Key {
        lock(&self.record).key.clone()
    }

    /// Its first process, once it is watched.
    pub fn process(&self) -> Option<Arc<Process>> {
        lock(&self.process).clone()
    }

    /// Takes its first process.
    pub fn set_process(&self, process: Arc<Process>) {
        *lock(&self.process) = Some(process);
    }

    /// Watches for kills because of its memory limit, if nobody does yet.
    pub fn watch_oom(&self) {
        self.oom.get_or_init(|| OomWatch::start(&self.record()));
    }

    /// Whether the kernel killed in it because of its memory limit.
    pub async fn was_oom_killed(&self, status: Option<i32>) -> bool {
        let record = self.record();
        let Some(watch) = self.oom.get() else { return oom::killed(&record) };
        watch.killed(&record, status).await
    }

    /// Whether plugins have heard of its start, and agreed. A start that was cut short may be tried
    /// again; it is told once.
    pub fn is_start_told(&self) -> bool {
        self.start_told.load(Ordering::SeqCst)
    }

    /// Says that plugins have heard of its start, and agreed.
    pub fn set_start_told(&self) {
        self.start_told.store(true, Ordering::SeqCst);
    }

    /// A wrapper asks for an update.
    pub fn note_asked(&self, caller: Option<Caller>) {
        let pending = lock(&self.record).pending.as_ref().and_then(|update| update.caller);
        if pending.is_some() && pending == caller {
            self.asked_again.notify_one();
        }
    }

    /// Waits until the wrapper whose update is pending asks again.
    pub async fn asked_again(&self) {
        self.asked_again.notified().await;
    }

    /// Whether a `delete` of it is under way.
    pub fn is_deleting(&self) -> bool {
        self.deleting.load(Ordering::SeqCst) > 0
    }

    /// Whether the runtime has deleted it; plugins may still have to hear of it.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// Whether the runtime is known to have read its document.
    pub fn is_document_read(&self) -> bool {
        self.document_read.load(Ordering::SeqCst)
    }

    /// Says that the runtime has read its document.
    pub fn set_document_read(&self) {
        self.document_read.store(true, Ordering::SeqCst);
    }

    /// Whether the runtime has it now.
    pub fn is_there(&self) -> bool {
        let record = self.record();
        let there = record.runtime.has(&record.key.id);
        self.seen.fetch_or(there, Ordering::SeqCst);
        there
    }

    /// Whether the runtime had it when it was looked at, and has it no more. A runtime may keep its
    /// containers elsewhere than we look.
    pub fn has_vanished(&self) -> bool {
        !self.is_there() && self.seen.load(Ordering::SeqCst)
    }

    /// Says that the runtime has deleted it.
    pub fn set_gone(&self) {
        self.gone.store(true, Ordering::SeqCst);
    }

    /// Says that a `delete` of it begins, or is over. There may be several.
    pub fn set_deleting(&self, deleting: bool) {
        match deleting {
            true => self.deleting.fetch_add(1, Ordering::SeqCst),
            false => self.deleting.fetch_sub(1, Ordering::SeqCst),
        };
    }
}

impl Registry {
    /// What was known when the last `nrid` ended. Returns the records that cannot be read beside.
    pub fn load(store: Store) -> (Self, Vec<StoreError>) {
        let (containers, mut broken) = store.containers();
        let (pods, broken_pods) = store.pods();
        broken.extend(broken_pods);
        let inner = Inner {
            containers: containers
                .into_iter()
                .map(|r| (r.key.clone(), Container::new(r)))
                .collect(),
            lanes: HashMap::new(),
        };
        let pods = pods.into_iter().map(|p| (p.sandbox.id.clone(), p)).collect();
        let registry = Self {
            store,
            inner: Mutex::new(inner),
            pods: Mutex::new(pods),
            entering: Mutex::default(),
            unsaved: Mutex::default(),
            failing: Notify::new(),
        };
        (registry, broken)
    }

    /// The lane of a container, known or not.
    pub fn lane(&self, key: &Key) -> Arc<AsyncMutex<()>> {
        let mut inner = lock(&self.inner);
        inner.lanes.retain(|_, lane| lane.strong_count() > 0);
        if let Some(lane) = inner.lanes.get(key).and_then(Weak::upgrade) {
            return lane;
        }
        let lane = Arc::new(AsyncMutex::new(()));
        inner.lanes.insert(key.clone(), Arc::downgrade(&lane));
        lane
    }

    /// Whether any verb is under way.
    pub fn is_busy(&self) -> bool {
        lock(&self.inner).lanes.values().any(|lane| lane.strong_count() > 0)
    }

    /// A container.
    pub fn get(&self, key: &Key) -> Option<Arc<Container>> {
        lock(&self.inner).containers.get(key).cloned()
    }

    /// The container that plugins know by this id.
    pub fn by_nri_id(&self, id: &str) -> Option<Arc<Container>> {
        self.all().into_iter().find(|c| lock(&c.record).container.id == id)
    }

    /// The container whose hook was told this.
    pub fn by_hook_name(&self, name: &str) -> Option<Arc<Container>> {
        let is = |record: &Record| record.key.hook_name(record.incarnation) == name;
        self.all().into_iter().find(|c| is(&lock(&c.record)))
    }

    /// All containers, oldest first.
    pub fn all(&self) -> Vec<Arc<Container>> {
        let mut all: Vec<_> = lock(&self.inner).containers.values().cloned().collect();
        all.sort_by_cached_key(|c| {
            let record = lock(&c.record);
            (record.container.created_at, record.key.clone())
        });
        all
    }

    /// Adds a container, on disk first.
    ///
    /// # Errors
    /// It cannot be kept; then it is not added.
    pub fn insert(&self, record: Record) -> Result<Arc<Container>, StoreError> {
        self.store.save(&record)?;
        let key = record.key.clone();
        let container = Container::new(record);
        lock(&self.inner).containers.insert(key, container.clone());
        Ok(container)
    }

    /// Changes a record, in memory and on disk. What cannot be written is logged, and written
    /// later: the truth is in memory, and the host is ahead of both.
    pub fn change(&self, container: &Container, change: impl FnOnce(&mut Record)) -> Record {
        let mut record = lock(&container.record);
        change(&mut record);
        // Written under the lock, so that an older state does not overwrite a newer one.
        if let Err(error) = self.save(container, &record) {
            tracing::error!(%error, container = record.key.id, "cannot keep the record for now");
        }
        record.clone()
    }

    /// Changes a record on disk, and then in memory.
    ///
    /// # Errors
    /// It cannot be written; then it has not changed.
    pub fn try_change(
        &self,
        container: &Container,
        change: impl FnOnce(&mut Record),
    ) -> Result<(), StoreError> {
        let mut record = lock(&container.record);
        let mut changed = record.clone();
        change(&mut changed);
        self.save(container, &changed)?;
        *record = changed;
        Ok(())
    }

    /// The caller holds the record's lock. What has been forgotten stays so.
    fn save(&self, container: &Container, record: &Record) -> Result<(), StoreError> {
        let known = lock(&self.inner).containers.get(&record.key).cloned();
        if known.is_none_or(|known| !std::ptr::eq(&*known, container)) {
            return Ok(());
        }
        let saved = self.store.save(record);
        let mut unsaved = lock(&self.unsaved);
        if saved.is_ok() {
            unsaved.containers.remove(&record.key);
        } else if unsaved.containers.insert(record.key.clone()) {
            self.failing.notify_one();
        }
        saved
    }

    /// Waits until something cannot be written.
    pub async fn failing(&self) {
        self.failing.notified().await;
    }

    /// Writes what could not be written before; whether nothing is left to be written.
    pub fn save_unsaved(&self) -> bool {
        let (containers, pods) = {
            let unsaved = lock(&self.unsaved);
            (unsaved.containers.clone(), unsaved.pods.clone())
        };
        let save = |container: &Container| self.save(container, &lock(&container.record)).is_ok();
        let containers =
            containers.iter().filter_map(|key| self.get(key)).all(|container| save(&container));
        containers && pods.iter().all(|id| self.keep_pod(id).is_ok())
    }

    /// Whether another container that is there was made from what we wrote into this one's bundle.
    /// Of several that go at once, each would leave it to the others otherwise.
    pub fn shares_document(&self, record: &Record) -> bool {
        let same = |other: &Record| {
            other.key != record.key
                && other.bundle.identity == record.bundle.identity
                && other.bundle.name == record.bundle.name
                && other.bundle.written == record.bundle.written
        };
        record.bundle.written.is_some()
            && self.all().iter().any(|c| !c.is_gone() && same(&lock(&c.record)))
    }

    /// Forgets a container.
    pub fn remove(&self, key: &Key) {
        let container = lock(&self.inner).containers.remove(key);
        // Who is writing it now has written it before.
        let _record = container.as_ref().map(|container| lock(&container.record));
        self.store.remove(key);
        lock(&self.unsaved).containers.remove(key);
    }

    /// A pod.
    pub fn pod(&self, id: &str) -> Option<PodRecord> {
        lock(&self.pods).get(id).cloned()
    }

    /// All pods, in the order of their ids.
    pub fn pods(&self) -> Vec<PodRecord> {
        let mut all: Vec<_> = lock(&self.pods).values().cloned().collect();
        all.sort_by(|a, b| a.sandbox.id.cmp(&b.sandbox.id));
        all
    }

    /// Adds or replaces a pod.
    pub fn set_pod(&self, pod: PodRecord) {
        let mut pods = lock(&self.pods);
        self.save_pod(&pod);
        pods.insert(pod.sandbox.id.clone(), pod);
    }

    /// Changes a pod, if there is one; returns what it has become.
    pub fn change_pod(&self, id: &str, change: impl FnOnce(&mut PodRecord)) -> Option<PodRecord> {
        let mut pods = lock(&self.pods);
        let pod = pods.get_mut(id)?;
        change(pod);
        self.save_pod(pod);
        Some(pod.clone())
    }

    /// Written under the lock, so that an older state does not overwrite a newer one.
    fn save_pod(&self, pod: &PodRecord) {
        if let Err(error) = self.try_save_pod(pod) {
            tracing::error!(%error, pod = pod.sandbox.id, "cannot keep the record for now");
        }
    }

    fn try_save_pod(&self, pod: &PodRecord) -> Result<(), StoreError> {
        let saved = self.store.save_pod(pod);
        let mut unsaved = lock(&self.unsaved);
        if saved.is_ok() {
            unsaved.pods.remove(&pod.sandbox.id);
        } else if unsaved.pods.insert(pod.sandbox.id.clone()) {
            self.failing.notify_one();
        }
        saved
    }

    /// Writes a pod if that failed before.
    ///
    /// # Errors
    /// It fails again.
    pub fn keep_pod(&self, id: &str) -> Result<(), StoreError> {
        let pods = lock(&self.pods);
        let unsaved = lock(&self.unsaved).pods.contains(id);
        pods.get(id).filter(|_| unsaved).map_or(Ok(()), |pod| self.try_save_pod(pod))
    }

    /// Forgets a pod.
    pub fn remove_pod(&self, id: &str) {
        let mut pods = lock(&self.pods);
        pods.remove(id);
        self.store.remove_pod(id);
        lock(&self.unsaved).pods.remove(id);
    }

    /// Forgets the pods that were made up and have no container.
    pub fn remove_empty_pods(&self) {
        for PodRecord { sandbox: PodSandbox { id, .. }, real, .. } in self.pods() {
            let empty = self.members(&id) == 0;
            let has_sandbox =
                self.all().iter().any(|c| c.record().sandbox && c.record().pod_id == id);
            if empty && !(real && has_sandbox) {
                self.remove_pod(&id);
            }
        }
    }

    /// Says that a container is about to be added to a pod.
    pub fn enter(self: &Arc<Self>, pod: &str) -> Entering {
        *lock(&self.entering).entry(pod.to_owned()).or_default() += 1;
        Entering { registry: self.clone(), pod: pod.to_owned() }
    }

    /// Whether a pod has no container, and none that is about to be added. The caller has the pod's
    /// lane.
    pub fn is_deserted(&self, pod: &str) -> bool {
        !lock(&self.entering).contains_key(pod) && self.members(pod) == 0
    }

    /// How many containers a pod has, its sandbox not counted.
    pub fn members(&self, pod: &str) -> usize {
        self.all()
            .iter()
            .filter(|c| {
                let record = lock(&c.record);
                record.pod_id == pod && !record.sandbox
            })
            .count()
    }

    /// How many pods and containers (sandboxes not counted) there are. What is deleted and only has
    /// to be told to plugins does not count.
    pub fn counts(&self) -> (usize, usize) {
        let all = self.all();
        let (gone, there): (Vec<_>, Vec<_>) = all.iter().partition(|c| c.is_gone());
        let pods_of = |list: &[&Arc<Container>]| -> HashSet<String> {
            list.iter().map(|c| lock(&c.record).pod_id.clone()).collect()
        };
        let (ending, held) = (pods_of(&gone), pods_of(&there));
        let pods =
            lock(&self.pods).keys().filter(|p| held.contains(*p) || !ending.contains(*p)).count();
        (pods, there.iter().filter(|c| !lock(&c.record).sandbox).count())
    }

    /// What events of this container carry.
    pub fn messages(&self, container: &Container) -> (PodSandbox, ContainerMessage) {
        let record = lock(&container.record);
        let (copy, pod_id) = (record.clone(), record.pod_id.clone());
        drop(record);
        let mut message = copy.message();
        if copy.phase == Phase::Running
            && cgroups::place(&copy).is_some_and(|place| cgroups::is_paused(&place))
        {
            message.state = ContainerState::CONTAINER_PAUSED.into();
        }
        (self.pod(&pod_id).map(|p| p.sandbox).unwrap_or_default(), message)
    }
}

/// A record is whole at every point where its holder could panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
