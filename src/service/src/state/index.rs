//! [`Index`]: finds known containers by each of their names, so that no event of one container has
//! to search all others.

use crate::state::{container::Container, key::ContainerKey};
use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    ops::Bound,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Containers with a common property, oldest first.
type Groups<K> = HashMap<K, Vec<Arc<Container>>>;

/// The known containers.
#[derive(Debug, Default)]
pub(super) struct Index {
    by_key: HashMap<ContainerKey, Arc<Container>>,
    /// In the order of the ids, for pages.
    by_nri_id: BTreeMap<String, Arc<Container>>,
    by_hook_name: HashMap<String, Arc<Container>>,
    by_pod: Groups<String>,
    /// In the order of the paths, in which a cgroup comes before those below it.
    by_cgroup: BTreeMap<PathBuf, Vec<Arc<Container>>>,
    /// Number of containers of each runtime root.
    roots: HashMap<PathBuf, usize>,
}

impl Index {
    /// Adds a container, and removes another one with the same key.
    pub(super) fn insert(&mut self, container: Arc<Container>) {
        self.remove(container.key());
        let names = container.names();
        self.by_nri_id.insert(names.nri_id.clone(), container.clone());
        self.by_hook_name.insert(names.hook_name.clone(), container.clone());
        self.by_pod.entry(names.pod_id.clone()).or_default().push(container.clone());
        if let Some(cgroup) = &names.cgroup {
            self.by_cgroup.entry(cgroup.clone()).or_default().push(container.clone());
        }
        *self.roots.entry(names.key.root.clone()).or_default() += 1;
        self.by_key.insert(names.key.clone(), container);
    }

    /// Removes a container.
    pub(super) fn remove(&mut self, key: &ContainerKey) -> Option<Arc<Container>> {
        let container = self.by_key.remove(key)?;
        let names = container.names();
        let is_removed = |other: Option<&Arc<Container>>| {
            other.is_some_and(|other| Arc::ptr_eq(other, &container))
        };
        // Another container may have been added with the same name.
        if is_removed(self.by_nri_id.get(&names.nri_id)) {
            self.by_nri_id.remove(&names.nri_id);
        }
        if is_removed(self.by_hook_name.get(&names.hook_name)) {
            self.by_hook_name.remove(&names.hook_name);
        }
        remove_from_group(&mut self.by_pod, &names.pod_id, &container);
        if let Some(cgroup) = &names.cgroup
            && let Some(group) = self.by_cgroup.get_mut(cgroup)
        {
            group.retain(|other| !Arc::ptr_eq(other, &container));
            if group.is_empty() {
                self.by_cgroup.remove(cgroup);
            }
        }
        if let Some(count) = self.roots.get_mut(&key.root) {
            *count -= 1;
            if *count == 0 {
                self.roots.remove(&key.root);
            }
        }
        Some(container)
    }

    /// Returns the container with this key.
    pub(super) fn get(&self, key: &ContainerKey) -> Option<&Arc<Container>> {
        self.by_key.get(key)
    }

    /// Returns the container that plugins know by this id.
    pub(super) fn by_nri_id(&self, id: &str) -> Option<&Arc<Container>> {
        self.by_nri_id.get(id)
    }

    /// Returns at most `limit` containers, those after the id `after`, in the order of the ids that
    /// plugins know.
    pub(super) fn page(&self, after: Option<&str>, limit: usize) -> Vec<Arc<Container>> {
        let from = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        self.by_nri_id.range::<str, _>(from).take(limit).map(|(_, c)| c.clone()).collect()
    }

    /// Returns the container that a hook names by `--record`.
    pub(super) fn by_hook_name(&self, name: &str) -> Option<&Arc<Container>> {
        self.by_hook_name.get(name)
    }

    /// Returns the containers of a pod, its sandbox included.
    pub(super) fn of_pod(&self, pod: &str) -> &[Arc<Container>] {
        self.by_pod.get(pod).map_or(&[], Vec::as_slice)
    }

    /// Returns the containers whose cgroup is the one at this path, above it or below it. Does not
    /// search the others.
    pub(super) fn by_cgroup(&self, path: &Path) -> impl Iterator<Item = &Arc<Container>> {
        let above = path.ancestors().filter_map(move |above| self.by_cgroup.get(above));
        let after = (Bound::Excluded(path), Bound::Unbounded);
        let below = self.by_cgroup.range::<Path, _>(after);
        let below = below.take_while(move |(other, _)| other.starts_with(path));
        above.chain(below.map(|(_, containers)| containers)).flatten()
    }

    /// Returns the runtime roots of all containers.
    pub(super) fn roots(&self) -> impl Iterator<Item = &PathBuf> {
        self.roots.keys()
    }

    /// Returns all containers, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Container>> {
        self.by_key.values()
    }
}

fn remove_from_group<K: Hash + Eq>(groups: &mut Groups<K>, name: &K, container: &Arc<Container>) {
    let Some(group) = groups.get_mut(name) else { return };
    group.retain(|other| !Arc::ptr_eq(other, container));
    if group.is_empty() {
        groups.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::record::{EXAMPLE, Record};

    #[test]
    fn pages_are_in_the_order_of_the_ids_that_plugins_know() {
        let mut index = Index::default();
        for (root, id, nri_id) in [
            ("/a", "web", "web"),
            ("/b", "web", "web-0123"),
            ("/a", "webserver", "webserver"),
            ("/b", "db", "db-4567"),
        ] {
            let mut record: Record = serde_json::from_str(EXAMPLE).unwrap();
            record.key = ContainerKey { root: root.into(), id: id.to_owned() };
            record.container.change(|container| container.id = nri_id.to_owned());
            index.insert(Container::new(record));
        }
        let names = |found: Vec<Arc<Container>>| {
            found.iter().map(|c| c.names().nri_id.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(index.page(None, 2)), ["db-4567", "web"]);
        assert_eq!(names(index.page(Some("web"), 2)), ["web-0123", "webserver"]);
        // The container of the last page was removed meanwhile.
        assert_eq!(names(index.page(Some("web-"), 1)), ["web-0123"]);
        assert!(index.page(Some("webserver"), 2).is_empty());
    }
}
