//! Reads the annotations of containerd's CRI, which iSulad also writes.
//! Source: containerd, `internal/cri/annotations/annotations.go`.

use crate::{Clues, EngineKind, Identity, Map, Pod, Role, cgroup};

/// Prefix of the annotation keys.
pub(crate) const PREFIX: &str = "io.kubernetes.cri.";

/// Reads an identity from the annotations. `sandbox_id` supplies the sandbox id if its annotation
/// is missing. The sandbox id of a sandbox is its container id.
pub(crate) fn identify(
    engine: EngineKind,
    clues: &Clues<'_>,
    sandbox_id: impl FnOnce() -> Option<String>,
) -> Option<Identity> {
    let get = |key: &str| clues.annotation(&format!("{PREFIX}{key}")).map(str::to_owned);
    let text = |key: &str| get(key).unwrap_or_default();
    let sandbox = get("sandbox-id").or_else(sandbox_id)?;
    let (role, image) = match get("container-type")?.as_str() {
        "sandbox" if sandbox == clues.id => (Role::Sandbox, text("podsandbox.image-name")),
        "container" if sandbox != clues.id => (Role::Member, text("image-name")),
        _ => return None,
    };
    Some(Identity {
        engine,
        role,
        pod: Pod {
            id: sandbox.clone(),
            sandbox,
            name: text("sandbox-name"),
            uid: text("sandbox-uid"),
            namespace: text("sandbox-namespace"),
            labels: Map::new(),
            annotations: clues.annotations_if(|key| !key.starts_with(PREFIX)),
            cgroup_parent: cgroup::parent(clues.cgroups_path),
            runtime_handler: String::new(),
        },
        name: text("container-name"),
        labels: Map::new(),
        annotations: Map::new(),
        image,
        source: None,
    })
}
