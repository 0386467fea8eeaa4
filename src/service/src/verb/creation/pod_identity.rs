//! Identity of pods. Whose pod one is: ids of pods are those of an engine and its store. And for
//! pods that are not of Kubernetes: the namespace and the uid that plugins expect of a pod, and
//! that engines like Docker and Podman do not have, and annotations from labels.

use crate::state::{key::ContainerKey, registry::Registry};
use nri_config::PodSettings;
use nri_engine::{EngineKind, Identity, Map, Role, podman};
use nri_spec::OciConfig;
use std::path::Path;

/// Whether a container may belong to the pod that its identity names: no pod of this id is known,
/// or it is of the same engine and the same store. With some engines, users choose the id. Records
/// of earlier versions may have no engine.
pub fn may_join(registry: &Registry, identity: &Identity, bundle: &Path) -> bool {
    if identity.role == Role::Alone {
        return true;
    }
    let (id, store) = (&identity.pod.id, podman::layers(bundle));
    let is_of_engine =
        |name: &str| name.is_empty() || api_of(name) == api_of(identity.engine.name());
    let is_of_store = |bundle: &Path| match (&store, podman::layers(bundle)) {
        (Some(store), Some(other)) => *store == other,
        _ => true,
    };
    registry.pods.get(id).is_none_or(|pod| is_of_engine(&pod.origin.engine))
        && registry.of_pod(id).iter().all(|container| {
            let record = container.record();
            is_of_engine(&record.engine.name) && is_of_store(&record.bundle.dir)
        })
}

/// Returns the engine whose API a container was created with.
fn api_of(engine: &str) -> &str {
    match engine == EngineKind::CriDockerd.name() {
        true => EngineKind::Docker.name(),
        false => engine,
    }
}

/// Adds a namespace, a uid and annotations from labels to the pod of a container, unless the pod is
/// of Kubernetes. The same container or pod gets the same uid again, after a restart of the
/// container, of `nrid` and of the host.
pub fn complete(
    identity: &mut Identity,
    key: &ContainerKey,
    config: &OciConfig,
    settings: &PodSettings,
) {
    if is_of_kubernetes(identity) {
        return;
    }
    let id = if identity.role == Role::Alone { &key.id } else { &identity.pod.id };
    let key = ContainerKey { root: key.root.clone(), id: id.clone() };
    identity.pod.uid = key.uuid();
    identity.pod.namespace.clone_from(&settings.namespace);
    let prefixes = &settings.annotations_from_labels;
    annotate(&mut identity.pod.annotations, &identity.pod.labels, prefixes, |_| false);
    let in_config = |key: &str| config.annotation(key).is_some();
    annotate(&mut identity.annotations, &identity.labels, prefixes, in_config);
}

/// Whether a container is of Kubernetes: its pod has a uid and a namespace, and annotations of its
/// own.
pub fn is_of_kubernetes(identity: &Identity) -> bool {
    identity.role != Role::Alone && identity.engine != EngineKind::Podman
}

/// Adds the labels whose keys have one of the prefixes, unless there is an annotation of the key:
/// in the map, or `elsewhere`.
fn annotate(
    annotations: &mut Map,
    labels: &Map,
    prefixes: &[String],
    elsewhere: impl Fn(&str) -> bool,
) {
    let is_chosen = |key: &str| prefixes.iter().any(|prefix| key.starts_with(prefix.as_str()));
    for (key, value) in labels.iter().filter(|(key, _)| is_chosen(key) && !elsewhere(key)) {
        annotations.entry(key.clone()).or_insert_with(|| value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{
        record::{EXAMPLE, Record},
        store::Store,
    };
    use nri_engine::Pod;

    #[test]
    fn a_pod_of_another_engine_or_store_is_not_joined() {
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(Store::open(dir.path()).unwrap());
        let storage = |root: &str, id: &str| format!("{root}/overlay-containers/{id}/userdata");
        for (id, engine, pod, bundle) in [
            ("c1", "docker", "p1", "/b/c1".to_owned()),
            ("c2", "podman", "p2", storage("/s", "c2")),
            ("c3", "", "p3", "/b/c3".to_owned()),
        ] {
            let mut record: Record = serde_json::from_str(EXAMPLE).unwrap();
            record.key.id = id.to_owned();
            record.pod_id = pod.to_owned();
            record.engine.name = engine.to_owned();
            record.bundle.dir = bundle.into();
            record.container.change(|container| container.id = id.to_owned());
            registry.insert(record).unwrap();
        }
        let may_join = |engine, role, pod: &str, bundle: &str| {
            let identity = Identity {
                engine,
                role,
                pod: Pod { id: pod.to_owned(), ..Pod::default() },
                name: String::new(),
                labels: Map::new(),
                annotations: Map::new(),
                image: String::new(),
                source: None,
            };
            super::may_join(&registry, &identity, Path::new(bundle))
        };
        let own = storage("/s", "c9");
        for (engine, role, pod, bundle, expected) in [
            (EngineKind::Docker, Role::Member, "p1", "/b/c9", true),
            (EngineKind::CriDockerd, Role::Member, "p1", "/b/c9", true),
            (EngineKind::Podman, Role::Member, "p1", &*own, false),
            (EngineKind::Podman, Role::Sandbox, "p1", &*own, false),
            (EngineKind::Podman, Role::Alone, "p1", &*own, true),
            (EngineKind::Podman, Role::Member, "p2", &*own, true),
            (EngineKind::Podman, Role::Shared, "p2", &*storage("/other", "c9"), false),
            (EngineKind::CriO, Role::Shared, "p2", &*own, false),
            // A record of an earlier version, and a pod that is not known.
            (EngineKind::CriO, Role::Shared, "p3", &*own, true),
            (EngineKind::CriO, Role::Shared, "p4", &*own, true),
        ] {
            assert_eq!(may_join(engine, role, pod, bundle), expected, "{engine} {role:?} {pod}");
        }
    }

    fn map(entries: &[(&str, &str)]) -> Map {
        entries.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn labels_with_a_chosen_prefix_become_annotations_unless_there_is_one() {
        let labels = map(&[("a.example/x", "1"), ("a.example/y", "2"), ("b.example/x", "3")]);
        let of = |prefixes: &[&str]| {
            let prefixes: Vec<_> = prefixes.iter().map(|p| (*p).to_owned()).collect();
            let mut annotations = map(&[("a.example/y", "kept")]);
            annotate(&mut annotations, &labels, &prefixes, |key| key == "a.example/z");
            annotations
        };
        let kept = ("a.example/y", "kept");
        assert_eq!(of(&[]), map(&[kept]));
        assert_eq!(of(&["a.example/"]), map(&[("a.example/x", "1"), kept]));
        assert_eq!(of(&["c", "b.example/x"]), map(&[kept, ("b.example/x", "3")]));
        assert_eq!(of(&[""]).len(), 3);
        let mut annotations = Map::new();
        annotate(&mut annotations, &labels, &[String::new()], |key| key == "a.example/x");
        assert_eq!(annotations, map(&[("a.example/y", "2"), ("b.example/x", "3")]));
    }
}
