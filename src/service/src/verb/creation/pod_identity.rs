//! Identity of pods that are not of Kubernetes: the namespace and the uid that plugins expect of a
//! pod, and that engines like Docker and Podman do not have, and annotations from labels.

use crate::state::key::ContainerKey;
use nri_config::PodSettings;
use nri_engine::{EngineKind, Identity, Map, Role};
use nri_spec::OciConfig;

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
