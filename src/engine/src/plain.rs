//! No engine, or one that leaves no marks: the container is a pod of its own.

use crate::{Clues, Engine, Identity, Map, Pod, Role, cgroup_parent};

pub(crate) fn identify(clues: &Clues<'_>) -> Identity {
    let name = if clues.hostname.is_empty() { clues.id } else { clues.hostname };
    Identity {
        engine: Engine::Plain,
        role: Role::Alone,
        pod: Pod {
            id: clues.id.to_owned(),
            name: name.to_owned(),
            annotations: clues.annotations.clone(),
            cgroup_parent: cgroup_parent(clues.cgroups_path),
            ..Pod::default()
        },
        name: clues.id.to_owned(),
        labels: Map::new(),
        annotations: Map::new(),
        image: String::new(),
        source: None,
    }
}
