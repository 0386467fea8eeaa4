//! containerd's CRI (and iSulad's, which writes the same keys).
//! Source: containerd, `internal/cri/annotations/annotations.go`.

use crate::{Clues, Engine, Identity, Map, Pod, Role, cgroup_parent};

pub(crate) fn identify(clues: &Clues<'_>) -> Option<Identity> {
    let get =
        |key: &str| clues.annotations.get(&format!("io.kubernetes.cri.{key}")).cloned().unwrap_or_default();
    let sandbox_id = clues.annotations.get("io.kubernetes.cri.sandbox-id")?;
    let role = match get("container-type").as_str() {
        "sandbox" => Role::Sandbox,
        "container" => Role::Member,
        _ => return None,
    };
    let own =
        |(k, v): (&String, &String)| (!k.starts_with("io.kubernetes.cri.")).then(|| (k.clone(), v.clone()));
    Some(Identity {
        engine: Engine::Containerd,
        role,
        pod: Pod {
            id: sandbox_id.clone(),
            sandbox: sandbox_id.clone(),
            name: get("sandbox-name"),
            uid: get("sandbox-uid"),
            namespace: get("sandbox-namespace"),
            labels: Map::new(),
            annotations: clues.annotations.iter().filter_map(own).collect(),
            cgroup_parent: cgroup_parent(clues.cgroups_path),
            runtime_handler: String::new(),
        },
        name: get("container-name"),
        labels: Map::new(),
        annotations: Map::new(),
        image: get("image-name"),
        source: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn annotations(pairs: &[(&str, &str)]) -> Map {
        pairs.iter().map(|(k, v)| (format!("io.kubernetes.cri.{k}"), (*v).to_owned())).collect()
    }

    #[test]
    fn sandbox_and_member() {
        let map = annotations(&[
            ("container-type", "container"),
            ("sandbox-id", "s1"),
            ("sandbox-name", "web"),
            ("container-name", "nginx"),
        ]);
        let clues = Clues {
            id: "c1",
            annotations: &map,
            bundle: Path::new("/b"),
            cgroups_path: "/k/p/c1",
            hostname: "",
            args: &[],
            root: Path::new(""),
            mounts: &[],
            runtime_root: None,
            environment: &Map::new(),
        };
        let identity = identify(&clues).unwrap();
        assert_eq!((identity.role, identity.name.as_str()), (Role::Member, "nginx"));
        assert_eq!((identity.pod.id.as_str(), identity.pod.name.as_str()), ("s1", "web"));
        assert_eq!(identity.pod.cgroup_parent, "/k/p");
        let map = annotations(&[("container-type", "sandbox"), ("sandbox-id", "s1")]);
        assert_eq!(identify(&Clues { annotations: &map, ..clues }).unwrap().role, Role::Sandbox);
        assert_eq!(identify(&Clues { annotations: &Map::new(), ..clues }), None);
    }
}
