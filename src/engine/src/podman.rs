//! Podman. Names and images are in the lists of containers/storage; labels, and the names of pods,
//! are in libpod's database only.
//!
//! What tells the containers of a pod, seen with Podman 4.3 to 5.8:
//!
//! | container | cgroup | annotation `SandboxID` |
//! |---|---|---|
//! | infra | the pod's | none |
//! | infra, pod without cgroup of its own | any other | none |
//! | member | the pod's, unless it asked for another | id of the infra container |
//! | member of a pod without infra | the same | id of the pod |
//!
//! The pod's cgroup is `<parent>/<pod>/libpod-<id>`, with systemd
//! `<parent>-libpod_pod_<pod>.slice:libpod:<id>`, rootless too. The annotation is made by Podman
//! whatever the image, so a container in a pod's cgroup without it should be the infra container.
//! But users choose cgroups (`--cgroup-parent`) and names, so that this is a claim only: whoever
//! can look at the host proves it by the program that is to run, or calls [`deny`]. Then the pod is
//! one without an infra container, and all that are in it stay together.
//!
//! **A pod's id** is the one in its cgroup. Where the cgroup tells none, it is the annotation's,
//! and for the infra container its own id: the same, as the annotation is that id. One case is
//! left, a member with a cgroup elsewhere while the infra container is in the pod's: then
//! [`Pod::sandbox`](crate::Pod::sandbox) of the member is the infra container's id, and that
//! container's pod is the one.
//!
//! An infra container without the pod's cgroup is told by its name, `<first 12 of the pod's
//! id>-infra`, once a list was read. Before, and with another name, it is a pod of its own, with
//! the id that its members give to theirs.
//!
//! Sources: podman, `pkg/specgen/generate/container.go`, `libpod/container_internal_linux.go`,
//! `libpod/runtime_pod_linux.go`, `libpod/storage.go`; containers/storage, `containers.go`.

use crate::{
    Clues, EngineKind, Identity, Map, Role, Source, Unreadable, cgroup::CgroupsPath, paths,
    unreadable,
};
use serde::Deserialize;
use std::path::{Path, PathBuf};

const SANDBOX_ID: &str = "io.kubernetes.cri-o.SandboxID";
const AUTOREMOVE: &str = "io.podman.annotations.autoremove";

/// Keys, and beginnings of keys, that are the engine's own.
const OWN: &[&str] = &[
    "io.container.manager",
    "io.kubernetes.cri-o.",
    "io.podman.annotations.",
    "org.opencontainers.image.stopSignal",
    "org.systemd.property.",
];

/// An entry of a list of containers/storage.
#[derive(Deserialize)]
struct Entry {
    id: String,
    #[serde(default)]
    names: Option<Vec<String>>,
    #[serde(default)]
    metadata: Option<String>,
}

/// What libpod keeps in an entry's `metadata`, as JSON in a string.
#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct Metadata {
    image_name: Option<String>,
    name: Option<String>,
}

pub(crate) fn identify(clues: &Clues<'_>) -> Option<Identity> {
    let cgroup = Cgroup::of(clues);
    if cgroup.is_none() && clues.annotation("io.container.manager") != Some("libpod") {
        return None;
    }
    let mut identity = Identity::alone(EngineKind::Podman, clues);
    identity.source = source(clues);
    if !clues.hostname.is_empty() {
        identity.pod.name = clues.hostname.to_owned();
    }
    let pod = cgroup.and_then(|c| c.pod);
    let annotation = clues.annotation(SANDBOX_ID).filter(|sandbox| *sandbox != clues.id);
    let (role, id, sandbox) = match (pod, annotation) {
        (None, None) => return Some(identity),
        (Some(pod), None) => (Role::Sandbox, pod, clues.id),
        (Some(pod), Some(annotation)) if annotation == pod => (Role::Shared, pod, ""),
        (Some(pod), Some(annotation)) => (Role::Member, pod, annotation),
        (None, Some(annotation)) => (Role::Member, annotation, annotation),
    };
    identity.role = role;
    identity.pod.id = id.to_owned();
    identity.pod.sandbox = sandbox.to_owned();
    if role == Role::Sandbox {
        identity.pod.annotations.retain(|key, _| !is_own(key));
    } else {
        identity.pod.name = id.to_owned();
        identity.pod.annotations = Map::new();
    }
    Some(identity)
}

fn is_own(key: &str) -> bool {
    OWN.iter().any(|own| key.starts_with(own))
}

/// A cgroup that Podman named.
struct Cgroup<'a> {
    pod: Option<&'a str>,
}

impl<'a> Cgroup<'a> {
    fn of(clues: &Clues<'a>) -> Option<Self> {
        let path = CgroupsPath::of(clues.cgroups_path);
        if let CgroupsPath::Systemd { slice, prefix: "libpod", name } = path {
            let pod = slice.strip_suffix(".slice").and_then(|s| s.rsplit_once("-libpod_pod_"));
            return (name == clues.id)
                .then_some(Self { pod: pod.map(|(_, pod)| pod).filter(|p| is_id(p)) });
        }
        // `libpod_parent` is no id.
        let (parent, last) = path.last_two()?;
        let ours = last.strip_prefix("libpod-") == Some(clues.id);
        ours.then_some(Self { pod: Some(parent).filter(|p| is_id(p)) })
    }
}

/// 64 hexadecimal digits, as Podman makes ids of pods and containers.
fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a name is the one that an infra container gets by itself.
fn is_infra(name: &str) -> bool {
    let digits =
        |id: &str| id.len() == 12 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    name.strip_suffix("-infra").is_some_and(digits)
}

/// The lists of the store that the bundle, `<graph root>/<driver>-containers/<id>/userdata`, is in.
/// Transient stores keep the volatile one, which has the containers that are removed when they end,
/// with the run root, where mounts come from.
fn source(clues: &Clues<'_>) -> Option<Source> {
    let graph = containers(&clues.bundle.join("config.json"), clues.id)?;
    let mut dirs = vec![graph.clone()];
    for dir in clues.mounts.iter().filter_map(|mount| containers(mount, clues.id)) {
        paths::add(&mut dirs, dir);
    }
    let mut lists: Vec<_> = dirs.iter().map(|dir| dir.join("volatile-containers.json")).collect();
    let at = if clues.annotation(AUTOREMOVE) == Some("TRUE") { lists.len() } else { 0 };
    lists.insert(at, graph.join("containers.json"));
    Some(Source::Podman { lists })
}

/// `<root>/<driver>-containers` of a file in this container's `userdata` there.
fn containers(file: &Path, id: &str) -> Option<PathBuf> {
    match paths::components(file)?.as_slice() {
        [root @ .., containers, of, "userdata", _]
            if *of == id && containers.ends_with("-containers") =>
        {
            Some(paths::absolute(root).join(containers))
        }
        _ => None,
    }
}

/// The claim to be an infra container is not proven: it is a container like others. The pod that it
/// claimed is its pod, which may have no sandbox container; or, if that pod has one (`taken`), it
/// is alone.
///
/// `annotations`: those of its document.
pub fn deny(identity: &mut Identity, id: &str, annotations: &Map, taken: bool) {
    identity.pod.sandbox = String::new();
    if !taken {
        identity.role = Role::Shared;
        return;
    }
    identity.role = Role::Alone;
    identity.pod.id = id.to_owned();
    identity.pod.annotations.clone_from(annotations);
    if identity.name != id {
        identity.pod.name.clone_from(&identity.name);
    }
}

/// Where the store that a bundle is in keeps the layers of images.
pub fn layers(bundle: &Path) -> Option<PathBuf> {
    let containers = bundle.parent()?.parent()?;
    let driver = containers.file_name()?.to_str()?.strip_suffix("-containers")?;
    Some(containers.with_file_name(driver)).filter(|_| bundle.ends_with("userdata"))
}

/// Adds what a list of containers/storage says of this container; whether it is in that list.
///
/// # Errors
/// Bytes that are no such list; then nothing has changed.
pub fn complete(identity: &mut Identity, id: &str, list: &[u8]) -> Result<bool, Unreadable> {
    let entries: Vec<Entry> = unreadable::parse("list of containers", list, unreadable::LIST)?;
    let Some(entry) = entries.into_iter().find(|e| e.id == id) else { return Ok(false) };
    let metadata: Metadata = match entry.metadata.as_deref() {
        Some(text) if !text.is_empty() => {
            unreadable::parse("metadata of a container", text.as_bytes(), unreadable::ONE)?
        }
        _ => Metadata::default(),
    };
    let name = metadata.name.or_else(|| entry.names?.into_iter().next());
    identity.image = metadata.image_name.unwrap_or_default();
    let Some(name) = name.filter(|n| !n.is_empty()) else { return Ok(true) };
    if identity.role == Role::Alone && is_infra(&name) {
        identity.role = Role::Sandbox;
        identity.pod.sandbox = id.to_owned();
        identity.pod.annotations.retain(|key, _| !is_own(key));
    } else if identity.role == Role::Alone {
        identity.pod.name.clone_from(&name);
    }
    identity.name = name;
    Ok(true)
}
