//! The known containers. A change is written to disk at once; a write that fails is retried later.

use crate::{
    bundle::own,
    cgroup::location,
    state::{
        container::Container,
        exec_marker,
        index::Index,
        key::ContainerKey,
        pods::Pods,
        record::Record,
        spares::WriteTarget,
        status::ContainerStatus,
        store::{Store, StoreError},
    },
};
use nri_adaptation::Origin;
use nri_api::proto::{Container as ContainerMessage, ContainerState, PodSandbox};
use nri_control::{Ambiguous, Match};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::sync::Notify;

/// Numbers of existing pods and containers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of pods.
    pub pods: usize,
    /// Number of containers, without sandbox containers.
    pub containers: usize,
    /// Number of those that have ended.
    pub ended: usize,
    /// Number of those whose bundle an `nrid` without bundles of its own has changed.
    pub with_edited_bundle: usize,
}

/// The known containers and pods.
#[derive(Debug)]
pub struct Registry {
    store: Store,
    pub(super) containers: Mutex<Index>,
    /// Containers with changes that are not on disk yet.
    unsaved: Mutex<HashSet<ContainerKey>>,
    /// Notified when a record cannot be written.
    write_failed: Arc<Notify>,
    /// The pods.
    pub pods: Pods,
}

impl Registry {
    /// Reads the records of the previous `nrid`. Also returns an error for each file that cannot be
    /// read.
    pub fn load(store: Store) -> (Self, Vec<StoreError>) {
        let (mut records, mut broken) = store.containers();
        records.iter_mut().for_each(Record::share_resources);
        let (mut pods, broken_pods) = store.pods();
        broken.extend(broken_pods);
        let origins: HashMap<_, _> =
            records.iter().map(|r| (r.pod_id.clone(), r.origin())).collect();
        for pod in &mut pods {
            pod.origin = origins.get(pod.id()).cloned().unwrap_or_default();
        }
        records.sort_by_key(Record::created_at);
        let mut containers = Index::default();
        records.into_iter().for_each(|record| containers.insert(Container::new(record)));
        let write_failed = Arc::<Notify>::default();
        let registry = Self {
            pods: Pods::new(store.clone(), pods, write_failed.clone()),
            store,
            containers: Mutex::new(containers),
            unsaved: Mutex::default(),
            write_failed,
        };
        (registry, broken)
    }

    /// Returns why records cannot be written, found by writing files of their size.
    pub fn write_error(&self) -> Option<String> {
        self.store.write_error()
    }

    /// Returns the container with this key.
    pub fn get(&self, key: &ContainerKey) -> Option<Arc<Container>> {
        self.containers.lock().get(key).cloned()
    }

    /// Whether this container is known. Another container with the same key does not count.
    pub fn contains(&self, container: &Container) -> bool {
        self.containers.lock().get(container.key()).is_some_and(|c| std::ptr::eq(&**c, container))
    }

    /// Returns the engine and the runtime of the container or pod that plugins know by this id.
    pub fn origin(&self, id: &str) -> Origin {
        match self.by_nri_id(id) {
            Some(container) => container.record().origin(),
            None => self.pods.get(id).map(|pod| pod.origin).unwrap_or_default(),
        }
    }

    /// Returns the container that plugins know by this id.
    pub fn by_nri_id(&self, id: &str) -> Option<Arc<Container>> {
        self.containers.lock().by_nri_id(id).cloned()
    }

    /// Returns the containers that a person means, of those that count, in the order of their ids,
    /// and how they are named. A name may be that of containers which have ended, too: they count
    /// if no other one has it. An id that several runtime roots have is that of the container which
    /// plugins know by it.
    pub fn meant(
        &self,
        wanted: &str,
        counts: impl Fn(&Container) -> bool,
    ) -> (Option<Match>, Vec<Arc<Container>>) {
        let all = self.all().into_iter().filter(|c| !c.is_deleted() && counts(c));
        let (rank, mut found) = Match::best(all.filter_map(|container| {
            let record = container.record();
            let ids = [&*record.key.id, record.nri_id()];
            Some((Match::of(wanted, &ids, record.container.text(&["name"]))?, container))
        }));
        let has_ended = |c: &Arc<Container>| c.status() == ContainerStatus::Stopped;
        if rank == Some(Match::Name) && !found.iter().all(has_ended) {
            found.retain(|container| !has_ended(container));
        }
        let has_id = |c: &Arc<Container>| c.record().nri_id() == wanted;
        if rank == Some(Match::Id) && found.iter().any(has_id) {
            found.retain(has_id);
        }
        found.sort_by(|a, b| (&a.key().id, &a.key().root).cmp(&(&b.key().id, &b.key().root)));
        (rank, found)
    }

    /// Returns the container that a person means; `None` if there is none.
    ///
    /// # Errors
    /// Several containers are meant.
    pub fn find(&self, wanted: &str) -> Result<Option<Arc<Container>>, Ambiguous> {
        let (_, mut found) = self.meant(wanted, |_| true);
        if found.len() > 1 {
            return Err(Ambiguous::new("containers", wanted, &distinct_ids(&found)));
        }
        Ok(found.pop())
    }

    /// Returns at most `limit` containers, those after the id `after`, in the order of the ids that
    /// plugins know.
    pub fn page(&self, after: Option<&str>, limit: usize) -> Vec<Arc<Container>> {
        self.containers.lock().page(after, limit)
    }

    /// Returns the container that a hook names by `--record`.
    pub fn by_hook_name(&self, name: &str) -> Option<Arc<Container>> {
        self.containers.lock().by_hook_name(name).cloned()
    }

    /// Returns the containers of a pod, its sandbox included, oldest first.
    pub fn of_pod(&self, pod: &str) -> Vec<Arc<Container>> {
        self.containers.lock().of_pod(pod).to_vec()
    }

    /// Returns the records of the containers that were created from this bundle.
    pub fn records_of_bundle(&self, identity: (u64, u64)) -> Vec<Arc<Record>> {
        let records = self.by_age().into_iter().map(|container| container.record());
        records.filter(|record| record.bundle.identity == identity).collect()
    }

    /// Returns all containers, in no order.
    pub fn all(&self) -> Vec<Arc<Container>> {
        self.containers.lock().all().cloned().collect()
    }

    /// Returns the runtime roots of all containers.
    pub fn roots(&self) -> Vec<PathBuf> {
        self.containers.lock().roots().cloned().collect()
    }

    /// Returns all containers, oldest first.
    pub fn by_age(&self) -> Vec<Arc<Container>> {
        let mut all: Vec<_> =
            self.all().into_iter().map(|c| (c.record().created_at(), c)).collect();
        all.sort_by(|(a, x), (b, y)| a.cmp(b).then_with(|| x.key().cmp(y.key())));
        all.into_iter().map(|(_, container)| container).collect()
    }

    /// Adds a container, on disk first.
    ///
    /// # Errors
    /// The record cannot be written; then the container is not added.
    pub fn insert(&self, record: Record) -> Result<Arc<Container>, StoreError> {
        self.store.save(&record, WriteTarget::New)?;
        let container = Container::new(record);
        self.containers.lock().insert(container.clone());
        Ok(container)
    }

    /// Changes a record, in memory and on disk, and returns it. A failed write is logged and
    /// retried later; the change stays in memory, because it has happened on the host already.
    pub fn change(&self, container: &Container, change: impl FnOnce(&mut Record)) -> Arc<Record> {
        self.change_if(container, |record| {
            change(record);
            true
        })
    }

    /// Changes a record as [`Registry::change`] does, but writes the record only if `change`
    /// returns `true`.
    pub fn change_if(
        &self,
        container: &Container,
        change: impl FnOnce(&mut Record) -> bool,
    ) -> Arc<Record> {
        let mut record = container.lock_record();
        if !change(Arc::make_mut(&mut record)) {
            return record.clone();
        }
        // Written under the lock, so that an older version of the record does not overwrite a newer
        // version.
        if let Err(error) = self.save(container, &record) {
            let (container, pod) = (&record.key.id, &record.pod_id);
            tracing::error!(%error, container, pod, "cannot write the record, retried later");
        }
        record.clone()
    }

    /// Changes a record on disk, and then in memory.
    ///
    /// # Errors
    /// The record cannot be written; then it has not changed.
    pub fn try_change(
        &self,
        container: &Container,
        change: impl FnOnce(&mut Record),
    ) -> Result<(), StoreError> {
        let mut record = container.lock_record();
        let mut changed = Record::clone(&record);
        change(&mut changed);
        self.save(container, &changed)?;
        *record = Arc::new(changed);
        Ok(())
    }

    /// Writes a record that the caller has locked. A container that was removed is not written
    /// again.
    fn save(&self, container: &Container, record: &Record) -> Result<(), StoreError> {
        if !self.contains(container) {
            return Ok(());
        }
        let saved = self.store.save(record, WriteTarget::Existing);
        let mut unsaved = self.unsaved.lock();
        if saved.is_ok() {
            unsaved.remove(&record.key);
        } else if unsaved.insert(record.key.clone()) {
            self.write_failed.notify_one();
        }
        saved
    }

    /// Waits until a record cannot be written.
    pub async fn write_failed(&self) {
        self.write_failed.notified().await;
    }

    /// Writes all records again, after the state directory was removed. Those that cannot be
    /// written are retried later.
    pub fn save_all(&self) {
        let keys: Vec<_> = self.all().iter().map(|c| c.key().clone()).collect();
        self.unsaved.lock().extend(keys);
        self.pods.mark_unsaved();
        if !self.save_unsaved() {
            self.write_failed.notify_one();
        }
    }

    /// Writes the records that could not be written before. Returns whether all records are on disk
    /// now.
    pub fn save_unsaved(&self) -> bool {
        let unsaved = self.unsaved.lock().clone();
        let save = |container: &Container| self.save(container, &container.lock_record()).is_ok();
        unsaved.iter().filter_map(|key| self.get(key)).all(|container| save(&container))
            && self.pods.save_unsaved()
    }

    /// Removes the marker for `exec` and the record of a container. The record is removed last,
    /// because the next `nrid` finds the marker by it.
    pub fn forget(&self, state_dir: &Path, key: &ContainerKey) {
        exec_marker::forget(state_dir, key);
        let container = self.containers.lock().remove(key);
        // Waits for a write in progress.
        let _record = container.as_ref().map(|container| container.lock_record());
        self.store.remove(key);
        self.unsaved.lock().remove(key);
    }

    /// Removes the bundle of a container, and what [`Registry::forget`] removes.
    pub fn remove_files(&self, state_dir: &Path, record: &Record) {
        if let Some(own) = &record.bundle.own {
            own::remove(state_dir, &own.name);
        }
        self.forget(state_dir, &record.key);
    }

    /// Removes the pods that have neither a container nor a sandbox.
    pub fn remove_empty_pods(&self) {
        for id in self.pods.ids() {
            if self.containers.lock().of_pod(&id).is_empty() {
                self.pods.remove(&id);
            }
        }
    }

    /// Whether a pod has no container and no creation is about to add one. The caller holds the pod
    /// lock.
    pub fn is_empty_pod(&self, id: &str) -> bool {
        !self.pods.is_reserved(id)
            && self.containers.lock().of_pod(id).iter().all(|container| container.is_sandbox())
    }

    /// Returns the numbers of existing pods and of existing containers without sandbox containers.
    /// Deleted pods and containers do not count, even if plugins are not notified yet.
    pub fn counts(&self) -> Counts {
        let ids = self.pods.ids();
        let containers = self.containers.lock();
        let exists = |id: &&String| {
            let members = containers.of_pod(id);
            members.is_empty() || members.iter().any(|container| !container.is_deleted())
        };
        let counts = |c: &&Arc<Container>| !c.is_sandbox() && !c.is_deleted();
        let pods = ids.iter().filter(exists).count();
        let counted: Vec<_> = containers.all().filter(counts).cloned().collect();
        // A holder of a record's lock may wait for that of the index.
        drop(containers);
        let ended = |c: &&Arc<Container>| c.status() == ContainerStatus::Stopped;
        let is_edited = |c: &&Arc<Container>| c.record().bundle.edited.is_some();
        Counts {
            pods,
            containers: counted.len(),
            ended: counted.iter().filter(ended).count(),
            with_edited_bundle: counted.iter().filter(is_edited).count(),
        }
    }

    /// Whether no container and no pod exists. Counts the pods only if there is no container.
    pub fn is_empty(&self) -> bool {
        let is_known = self.containers.lock().all().any(|container| !container.is_deleted());
        !is_known && self.counts() == Counts::default()
    }

    /// Returns the pod and the container for a message to plugins.
    pub fn messages(&self, container: &Container) -> (PodSandbox, ContainerMessage) {
        let record = container.record();
        let mut message = record.message();
        if record.status == ContainerStatus::Running
            && record.cgroup().is_some_and(|dirs| location::is_paused(&dirs))
        {
            message.state = ContainerState::CONTAINER_PAUSED.into();
        }
        (self.pod_message(&record), message)
    }

    /// Returns the container's pod for a message to plugins.
    pub fn pod_message(&self, record: &Record) -> PodSandbox {
        self.pods.get(&record.pod_id).map(|pod| pod.sandbox.get()).unwrap_or_default()
    }
}

/// Returns ids by which a person can name each of these containers: if several runtime roots have
/// an id, the one that plugins know, with the root.
pub fn distinct_ids(containers: &[Arc<Container>]) -> Vec<String> {
    let is_shared = |id: &str| containers.iter().filter(|c| c.key().id == id).count() > 1;
    let id = |container: &Arc<Container>| {
        let ContainerKey { root, id } = container.key();
        match is_shared(id) {
            true => format!("{} (root {})", container.record().nri_id(), root.display()),
            false => id.clone(),
        }
    };
    containers.iter().map(id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::record::EXAMPLE;

    /// A writer of a record waits for the index, so no thread may wait for a record with the
    /// index locked: a status during an event once stopped `nrid`.
    #[test]
    fn counts_do_not_wait_for_a_record_with_the_index_locked() {
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(Store::open(dir.path()).unwrap());
        let container = registry.insert(serde_json::from_str(EXAMPLE).unwrap()).unwrap();
        let record = container.lock_record();
        std::thread::scope(|scope| {
            let counting = scope.spawn(|| registry.counts());
            // Long enough for the thread to reach the record, which it can pass only later.
            for _ in 0..1000 {
                std::thread::sleep(std::time::Duration::from_micros(100));
                assert!(!counting.is_finished());
            }
            let index = registry.containers.try_lock();
            assert!(index.is_some(), "the index is locked");
            drop((index, record));
            assert_eq!(counting.join().unwrap().containers, 1);
        });
    }

    #[test]
    fn containers_whose_bundle_an_earlier_version_changed_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(Store::open(dir.path()).unwrap());
        let edited = EXAMPLE.replace(r#""identity":[1,2]"#, r#""identity":[1,2],"written":"d""#);
        for (id, text) in [("1", EXAMPLE), ("2", &edited)] {
            let mut record: Record = serde_json::from_str(text).unwrap();
            record.key.id = id.to_owned();
            registry.insert(record).unwrap();
        }
        let counts = registry.counts();
        assert_eq!((counts.containers, counts.with_edited_bundle), (2, 1));
    }

    #[test]
    fn a_container_is_found_by_id_then_by_name_then_by_prefix() {
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(Store::open(dir.path()).unwrap());
        for (id, name, status) in [
            ("1a", "web", ContainerStatus::Running),
            ("1b", "web", ContainerStatus::Stopped),
            ("2a", "db", ContainerStatus::Stopped),
            ("2b", "1a", ContainerStatus::Running),
            ("3a", "x", ContainerStatus::Running),
            ("3b", "x", ContainerStatus::Running),
            ("web-1", "", ContainerStatus::Running),
        ] {
            let mut record: Record = serde_json::from_str(EXAMPLE).unwrap();
            record.key = ContainerKey { root: "/r".into(), id: id.to_owned() };
            record.status = status;
            record.container.change(|container| {
                container.id = id.to_owned();
                container.name = name.to_owned();
            });
            registry.insert(record).unwrap();
        }
        for (wanted, ids) in [
            ("1a", &["1a"][..]),
            ("web", &["1a"]),
            ("db", &["2a"]),
            ("x", &["3a", "3b"]),
            ("1", &["1a", "1b"]),
            ("web-", &["web-1"]),
            ("none", &[]),
            ("", &[]),
        ] {
            let (_, found) = registry.meant(wanted, |_| true);
            assert!(found.iter().map(|c| &*c.key().id).eq(ids.iter().copied()), "{wanted:?}");
        }
        assert_eq!(registry.find("web").unwrap().unwrap().key().id, "1a");
        assert!(registry.find("none").unwrap().is_none());
        let error = registry.find("x").unwrap_err().to_string();
        assert_eq!(error, "several containers are meant by x, use an id: 3a, 3b");
    }

    #[test]
    fn an_id_in_two_roots_is_told_apart_by_the_ids_that_plugins_know() {
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(Store::open(dir.path()).unwrap());
        for (root, nri_id) in [("/run/b", "1a"), ("/run/a", "1a-7777")] {
            let mut record: Record = serde_json::from_str(EXAMPLE).unwrap();
            record.key = ContainerKey { root: root.into(), id: "1a".to_owned() };
            record.container.change(|container| {
                container.id = nri_id.to_owned();
                container.name = "web".to_owned();
            });
            registry.insert(record).unwrap();
        }
        for wanted in ["web", "1"] {
            let error = registry.find(wanted).unwrap_err().to_string();
            let ids = "1a-7777 (root /run/a), 1a (root /run/b)";
            assert!(error.ends_with(&format!("use an id: {ids}")), "{error}");
        }
        for (wanted, root) in [("1a", "/run/b"), ("1a-7777", "/run/a")] {
            let found = registry.find(wanted).unwrap().unwrap();
            assert_eq!(found.key().root, Path::new(root), "{wanted}");
        }
    }
}
