//! Recognizes CRI-O. All facts are in annotations; labels and annotations of the container are
//! JSON in a string.
//!
//! By default a pod has no sandbox container (`drop_infra_ctr`), and OCI configs do not show
//! whether a pod has one. Containers belong to the same pod if they have the same sandbox id, which
//! is the id of the sandbox container if the pod has one. CRI-O copies Kubernetes' annotations of
//! the pod to its containers. Other facts are in the OCI config of the sandbox, which exists with
//! and without a sandbox container. Sources: CRI-O, `internal/annotations/annotations.go`,
//! `internal/factory/container/container.go`, `server/sandbox_run_linux.go`.

use crate::{
    Clues, EngineKind, Identity, Map, Pod, Role, Source, Unreadable, cgroup, cgroup::CgroupsPath,
    kubernetes, paths, unreadable,
};
use serde::{Deserialize, de::DeserializeOwned};
use std::path::PathBuf;

const PREFIX: &str = "io.kubernetes.cri-o.";

/// Annotation keys and key prefixes that CRI-O sets.
const OWN: &[&str] = &[
    PREFIX,
    "io.container.manager",
    "org.systemd.property.",
    "org.opencontainers.image.stopSignal",
    "platform-runtime-path.crio.io",
];

/// CRI metadata; the metadata of a container has only the name.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    name: Option<String>,
    uid: Option<String>,
    namespace: Option<String>,
}

pub(crate) fn identify(clues: &Clues<'_>) -> Option<Identity> {
    if clues.annotation("io.container.manager") != Some("cri-o") {
        return None;
    }
    let get = |key: &str| clues.annotation(&format!("{PREFIX}{key}"));
    let text = |key: &str| get(key).unwrap_or_default().to_owned();
    let sandbox = get("SandboxID")?.to_owned();
    // Users of other engines can set these annotations; CRI-O itself names the cgroup.
    if !is_in_own_cgroup(clues) {
        return None;
    }
    let role = match get("ContainerType")? {
        "sandbox" if sandbox == clues.id => Role::Sandbox,
        "container" if sandbox != clues.id => Role::Shared,
        _ => return None,
    };
    let labels: Map = json(get("Labels")).unwrap_or_default();
    let annotations: Option<Map> = json(get("Annotations"));
    let metadata: Metadata = json(get("Metadata")).unwrap_or_default();
    let mut pod = Pod {
        id: sandbox.clone(),
        cgroup_parent: cgroup::parent(clues.cgroups_path),
        runtime_handler: text("RuntimeHandler"),
        ..Pod::default()
    };
    let source = match role {
        Role::Shared => {
            sandbox_config_path(clues, &sandbox).map(|sandbox| Source::CriO { sandbox })
        }
        _ => None,
    };
    let names = get("SandboxName").and_then(kubernetes::of_sandbox);
    kubernetes::name_pod(&mut pod, names.as_ref(), &labels);
    let is_own = |key: &str| OWN.iter().any(|own| key.starts_with(own));
    let name = metadata.name.filter(|n| !n.is_empty());
    let name = match role {
        Role::Sandbox => {
            let metadata = Metadata { name, ..metadata };
            metadata.name_pod(&mut pod);
            pod.sandbox = sandbox;
            pod.labels.clone_from(&labels);
            pod.annotations =
                annotations.clone().unwrap_or_else(|| clues.annotations_if(|k| !is_own(k)));
            text("ContainerName")
        }
        _ => {
            let of_container = annotations.clone().unwrap_or_default();
            pod.annotations = clues.annotations_if(|key| {
                !is_own(key) && !labels.contains_key(key) && !of_container.contains_key(key)
            });
            name.or_else(|| labels.get(kubernetes::CONTAINER_NAME).cloned())
                .unwrap_or_else(|| text("Name"))
        }
    };
    Some(Identity {
        engine: EngineKind::CriO,
        role,
        pod,
        name,
        labels,
        annotations: annotations.unwrap_or_default(),
        image: get("ImageName").or_else(|| get("Image")).unwrap_or_default().to_owned(),
        source,
    })
}

/// Whether the cgroup has a name of CRI-O: `<slice>:crio:<id>`, or `…/crio-<id>`.
pub(crate) fn is_in_own_cgroup(clues: &Clues<'_>) -> bool {
    match CgroupsPath::parse(clues.cgroups_path) {
        CgroupsPath::Systemd { prefix, name, .. } => prefix == "crio" && name == clues.id,
        path => {
            path.last_two().is_some_and(|(_, last)| last.strip_prefix("crio-") == Some(clues.id))
        }
    }
}

impl Metadata {
    /// Sets the names of the pod.
    fn name_pod(self, pod: &mut Pod) {
        let names = [
            (&mut pod.name, self.name),
            (&mut pod.namespace, self.namespace),
            (&mut pod.uid, self.uid),
        ];
        for (to, from) in names {
            if let Some(from) = from.filter(|f| !f.is_empty()) {
                *to = from;
            }
        }
    }
}

/// Returns `…/<sandbox>/userdata/config.json`, next to the container's `…/<id>/userdata`.
fn sandbox_config_path(clues: &Clues<'_>, sandbox: &str) -> Option<PathBuf> {
    let mut path = paths::components(clues.bundle)?;
    let has_layout = path.pop()? == "userdata" && path.pop()? == clues.id;
    if !has_layout || !paths::is_component(sandbox) {
        return None;
    }
    path.extend([sandbox, "userdata", "config.json"]);
    Some(paths::absolute(&path))
}

/// The used part of a sandbox's OCI config.
#[derive(Deserialize, Default)]
#[serde(default)]
struct SandboxConfig {
    annotations: Map,
}

/// Adds the facts of a pod from the OCI config of its sandbox.
///
/// # Errors
/// The OCI config cannot be parsed, or is of another sandbox.
pub fn complete(identity: &mut Identity, config: &[u8]) -> Result<(), Unreadable> {
    const WHAT: &str = "the sandbox's config.json"; // for errors
    let SandboxConfig { annotations } = unreadable::parse(WHAT, config, unreadable::MAX_CONTAINER)?;
    let get = |key: &str| annotations.get(&format!("{PREFIX}{key}")).map(String::as_str);
    let found = get("SandboxID").unwrap_or_default();
    if found != identity.pod.id {
        return Err(Unreadable::Other { what: WHAT, found: found.to_owned() });
    }
    let pod = &mut identity.pod;
    let metadata: Metadata = json(get("Metadata")).unwrap_or_default();
    metadata.name_pod(pod);
    if let Some(labels) = json(get("Labels")) {
        pod.labels = labels;
    }
    if let Some(annotations) = json(get("Annotations")) {
        pod.annotations = annotations;
    }
    for (to, key) in
        [(&mut pod.cgroup_parent, "CgroupParent"), (&mut pod.runtime_handler, "RuntimeHandler")]
    {
        if let Some(value) = get(key).filter(|v| !v.is_empty()) {
            value.clone_into(to);
        }
    }
    Ok(())
}

/// Parses JSON in an annotation; `None` if the annotation is missing or malformed.
fn json<T: DeserializeOwned>(text: Option<&str>) -> Option<T> {
    unreadable::parse("annotation", text?.as_bytes(), unreadable::MAX_ANNOTATION).ok()
}
