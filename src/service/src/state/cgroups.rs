//! Whether the cgroup of a new container would be inside that of another one, or contain it. What
//! the kernel enforces for a cgroup holds for all below it, whatever these have themselves: each
//! container would use the CPUs and be under the limits of the other. Engines make cgroups of
//! containers side by side, below those of pods, slices and services, which are no containers.

use crate::state::{
    container::Container, record::Record, registry::Registry, status::ContainerStatus,
};
use nri_api::{
    PARTITION,
    proto::{Field, FieldOwners},
    undone_by,
};
use protobuf::Enum;
use std::{path::PathBuf, sync::Arc};

/// A container with a cgroup that another one would share.
#[derive(Debug)]
pub struct Nested {
    /// Path of the new container's cgroup.
    pub cgroup: PathBuf,
    /// Where it is, for a message.
    pub place: &'static str,
    /// The other container.
    pub other: Arc<Container>,
}

impl Registry {
    /// Returns a container that has its cgroup above or below the place where that of a new one
    /// will be, or at this place. Those that have ended do not count, nor does the sandbox
    /// container of its own pod, which plugins do not know as a container.
    pub fn nested(&self, record: &Record) -> Option<Nested> {
        record.possible_cgroups().into_iter().find_map(|cgroup| {
            // A holder of a record's lock may wait for that of the index.
            let found: Vec<_> = self.containers.lock().by_cgroup(&cgroup).cloned().collect();
            let other = found.into_iter().find(|other| counts(other, record))?;
            let place = match other.names().cgroup.as_deref() {
                Some(of_other) if of_other == cgroup => "it is",
                Some(of_other) if of_other.starts_with(&cgroup) => "it contains",
                _ => "it is inside",
            };
            Some(Nested { cgroup, place, other })
        })
    }
}

fn counts(other: &Container, new: &Record) -> bool {
    let is_own_sandbox = other.is_sandbox() && other.names().pod_id == new.pod_id;
    if *other.key() == new.key || is_own_sandbox || other.is_deleted() {
        return false;
    }
    let other = other.record();
    // Others are as without plugins: an engine in a container may well put its own there.
    (have_cpuset(&other.owners) || have_cpuset(&new.owners))
        && other.status != ContainerStatus::Stopped
        && !other.process_has_ended()
}

/// Whether plugins have set CPUs or memory nodes, which a cgroup below or above could undo.
fn have_cpuset(owners: &FieldOwners) -> bool {
    undone_by(PARTITION).iter().any(|field: &Field| owners.simple.contains_key(&field.value()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{key::ContainerKey, record::EXAMPLE, store::Store};

    fn record(id: &str, cgroup: &str) -> Record {
        let mut record: Record = serde_json::from_str(EXAMPLE).unwrap();
        record.key = ContainerKey { root: "/r".into(), id: id.to_owned() };
        record.pod_id = id.to_owned();
        (record.pid, record.status) = (None, ContainerStatus::Running);
        record.owners.simple.insert(Field::CPUSetCPUs.value(), "10-a".to_owned());
        record.container.change(|container| {
            container.id = id.to_owned();
            let linux = container.linux.mut_or_insert_default();
            linux.cgroups_path = cgroup.to_owned();
        });
        record
    }

    #[test]
    fn a_cgroup_in_that_of_another_container_is_found_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(Store::open(dir.path()).unwrap());
        // The example's runtime uses systemd.
        let slice = "a-b.slice:x";
        registry.insert(record("db", &format!("{slice}:db"))).unwrap();
        registry.insert(record("none", "")).unwrap();
        let ended = Record {
            status: ContainerStatus::Stopped,
            ..record("ended", &format!("{slice}:ended"))
        };
        registry.insert(ended).unwrap();
        let found = |cgroup: &str| {
            let nested = registry.nested(&record("new", cgroup))?;
            Some(format!("{} {} {}", nested.cgroup.display(), nested.place, nested.other.key().id))
        };
        let at = "/a.slice/a-b.slice";
        assert_eq!(found(&format!("{slice}:db")), Some(format!("{at}/x-db.scope it is db")));
        assert_eq!(found("a.slice:x:a-b.slice"), Some(format!("{at} it contains db")));
        for other in
            ["a-b.slice:x:d", "a-b.slice:x:db2", "a-b-c.slice:x:db", "a-b.slice:x:ended", ""]
        {
            assert_eq!(found(other), None, "{other}");
        }
        let unset =
            Record { owners: FieldOwners::default(), ..record("new", "a.slice:x:a-b.slice") };
        assert!(registry.nested(&unset).is_some(), "CPUs of the other one are set");
        let other = ContainerKey { root: "/r".into(), id: "db".to_owned() };
        registry.forget(dir.path(), &other);
        let free =
            Record { owners: FieldOwners::default(), ..record("free", &format!("{slice}:free")) };
        registry.insert(free).unwrap();
        let below =
            Record { owners: FieldOwners::default(), ..record("new", "a.slice:x:a-b.slice") };
        assert!(registry.nested(&below).is_none(), "no plugin has set CPUs");
        assert!(found(&format!("{slice}:free")).is_some());
        registry.insert(record("db", &format!("{slice}:db"))).unwrap();
        // The same container again.
        assert!(registry.nested(&record("db", &format!("{slice}:db"))).is_none());
    }

    #[test]
    fn paths_are_looked_up_upwards_and_downwards() {
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(Store::open(dir.path()).unwrap());
        let without_systemd = EXAMPLE.replace("\"--systemd-cgroup\"", "");
        let plain = |id: &str, pod: &str, cgroup: &str, sandbox: bool| {
            let runtime = serde_json::from_str::<Record>(&without_systemd).unwrap().runtime;
            Record { runtime, sandbox, pod_id: pod.to_owned(), ..record(id, cgroup) }
        };
        registry.insert(plain("a", "a", "/docker/a", false)).unwrap();
        registry.insert(plain("b", "b", "/docker/ab", false)).unwrap();
        registry.insert(plain("p", "p", "/kube/p/p", true)).unwrap();
        for (pod, cgroup, expected) in [
            ("n", "/docker/a/n", Some("a")),
            ("n", "/docker/x/../a/n/m", Some("a")),
            ("n", "docker/a/n", Some("a")),
            ("n", "/docker/ab", Some("b")),
            ("n", "/docker", Some("a")),
            ("n", "/docker/n", None),
            ("n", "/docker/abc", None),
            ("n", "/kube/p/n", None),
            ("n", "/kube/p/p/n", Some("p")),
            ("p", "/kube/p/p/n", None),
            ("n", "/", None),
        ] {
            let found = registry.nested(&plain("n", pod, cgroup, false));
            let found = found.map(|nested| nested.other.key().id.clone());
            assert_eq!(found.as_deref(), expected, "{cgroup}");
        }
        let key = ContainerKey { root: "/r".into(), id: "a".to_owned() };
        registry.forget(dir.path(), &key);
        assert!(registry.nested(&plain("n", "n", "/docker/a/n", false)).is_none());
    }
}
