//! Recognizes Podman. Names and images are in the lists of containers/storage; labels and the names
//! of pods are only in libpod's database, of which the caller reads labels where it needs them.
//!
//! Traces of a pod's containers in the OCI config, observed with Podman 4.3 to 5.8:
//!
//! | container | cgroup | annotation `SandboxID` |
//! |---|---|---|
//! | infra | the pod's | none |
//! | infra of a pod without cgroup | any other | none |
//! | member | the pod's, unless the user chose another | id of the infra container |
//! | member of a pod without infra | as for other members | id of the pod |
//!
//! The pod's cgroup is `<parent>/<pod>/libpod-<id>`, with systemd
//! `<parent>-libpod_pod_<pod>.slice:libpod:<id>`, also for rootless Podman. Podman adds the
//! annotation to every member whatever the image, so a container in a pod's cgroup without the
//! annotation should be the infra container. But users choose cgroups (`--cgroup-parent`) and
//! names, so a cgroup does not prove an infra container. The caller, which can read the host,
//! checks which program the container runs, and calls [`reject_infra`] if it is not the program
//! of an infra container. The pod then counts as a pod without an infra container, and its
//! containers stay in one pod.
//!
//! **A pod's id** is taken from the cgroup. If the cgroup has no id, a member's pod id is the
//! annotation, and the infra container's pod id is its own container id. Both ids are equal, since
//! the annotation is the id of the infra container. One case remains: the infra container is in the
//! pod's cgroup, and a member is not. Then [`Pod::sandbox`](crate::Pod::sandbox) of the member is
//! the id of the infra container, and the member belongs to the pod of that container.
//!
//! An infra container without the pod's cgroup is recognized by its name, `<first 12 digits of the
//! pod's id>-infra`, after a list of containers/storage was read. Until then, or if it has another
//! name, the infra container has a synthetic pod, whose id is also the pod id of the members.
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

/// Annotation keys and key prefixes that Podman sets.
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

/// Data that libpod stores in an entry's `metadata`, as JSON in a string.
#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct Metadata {
    image_name: Option<String>,
    name: Option<String>,
}

/// Whether the bundle is a directory of containers/storage, which CRI-O uses as well.
pub(crate) fn is_storage(clues: &Clues<'_>) -> bool {
    containers_dir(&clues.bundle.join("config.json"), clues.id).is_some()
}

/// Recognizes a container by its cgroup, of which Podman chooses the last name, or by the
/// annotation of Podman, which users can change. In containers/storage, a container without a
/// cgroup is Podman's, too: CRI-O always gives one.
pub(crate) fn identify(clues: &Clues<'_>) -> Option<Identity> {
    let cgroup = Cgroup::of(clues);
    let is_of_storage = || {
        is_storage(clues)
            && (clues.cgroups_path.is_empty() || clues.cgroups_path.contains("libpod"))
    };
    let is_annotated = || clues.annotation("io.container.manager") == Some("libpod");
    if cgroup.is_none() && !is_annotated() && !is_of_storage() {
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

/// A cgroup with a name in Podman's form; `pod` is the id of the pod in the name.
struct Cgroup<'a> {
    pod: Option<&'a str>,
}

impl<'a> Cgroup<'a> {
    fn of(clues: &Clues<'a>) -> Option<Self> {
        let path = CgroupsPath::parse(clues.cgroups_path);
        if let CgroupsPath::Systemd { slice, prefix: "libpod", name } = path {
            let pod = slice.strip_suffix(".slice").and_then(|s| s.rsplit_once("-libpod_pod_"));
            return (name == clues.id)
                .then_some(Self { pod: pod.map(|(_, pod)| pod).filter(|p| is_id(p)) });
        }
        // A parent such as `libpod_parent` is no pod id.
        let (parent, last) = path.last_two()?;
        let is_podman = last.strip_prefix("libpod-") == Some(clues.id);
        is_podman.then_some(Self { pod: Some(parent).filter(|p| is_id(p)) })
    }
}

/// Whether a text has the form of Podman's ids of pods and containers: 64 hexadecimal digits.
fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a name is the default name of an infra container.
fn is_infra_name(name: &str) -> bool {
    let is_short_id =
        |id: &str| id.len() == 12 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    name.strip_suffix("-infra").is_some_and(is_short_id)
}

/// Returns the lists of the store that contains the bundle,
/// `<graph root>/<driver>-containers/<id>/userdata`. The volatile list has the containers that are
/// removed when they exit (`--rm`), and comes first for such a container. A transient store has its
/// volatile list below the run root, which is derived from the sources of mounts.
fn source(clues: &Clues<'_>) -> Option<Source> {
    let graph = containers_dir(&clues.bundle.join("config.json"), clues.id)?;
    let mut dirs = vec![graph.clone()];
    for dir in clues.mounts.iter().filter_map(|mount| containers_dir(mount, clues.id)) {
        paths::add_unique(&mut dirs, dir);
    }
    let mut lists: Vec<_> = dirs.iter().map(|dir| dir.join("volatile-containers.json")).collect();
    let at = if clues.annotation(AUTOREMOVE) == Some("TRUE") { lists.len() } else { 0 };
    lists.insert(at, graph.join("containers.json"));
    Some(Source::Podman { lists })
}

/// Returns `<root>/<driver>-containers` for a file in the `userdata` directory of this container.
fn containers_dir(file: &Path, id: &str) -> Option<PathBuf> {
    match paths::components(file)?.as_slice() {
        [root @ .., containers, owner, "userdata", _]
            if *owner == id && containers.ends_with("-containers") =>
        {
            Some(paths::absolute(root).join(containers))
        }
        _ => None,
    }
}

/// Corrects the identity of a container that was recognized as an infra container but is not one.
/// The container becomes a member of the pod, which may have no sandbox container. If the pod has
/// another sandbox container (`has_other_sandbox`), the container gets a synthetic pod.
///
/// `annotations` are those of the container's OCI config.
pub fn reject_infra(identity: &mut Identity, id: &str, annotations: &Map, has_other_sandbox: bool) {
    identity.pod.sandbox = String::new();
    if !has_other_sandbox {
        identity.role = Role::Shared;
        return;
    }
    identity.leave_pod(id, annotations);
}

/// Returns the directory of image layers in the store that contains a bundle.
pub fn layers(bundle: &Path) -> Option<PathBuf> {
    let containers = bundle.parent()?.parent()?;
    let driver = containers.file_name()?.to_str()?.strip_suffix("-containers")?;
    Some(containers.with_file_name(driver)).filter(|_| bundle.ends_with("userdata"))
}

/// Returns the paths at which libpod's database may be, the most likely first: in the root of the
/// store, or in the directory of libpod in it. `lists` are those of [`Source::Podman`].
pub fn databases(lists: &[PathBuf]) -> Vec<PathBuf> {
    let mut databases = Vec::new();
    // `<root>/<driver>-containers/containers.json`
    for root in lists.iter().filter_map(|list| list.ancestors().nth(2)) {
        for path in ["db.sql", "libpod/db.sql"] {
            paths::add_unique(&mut databases, root.join(path));
        }
    }
    databases
}

/// The used part of libpod's configuration of a container or pod.
#[derive(Deserialize, Default)]
#[serde(default)]
struct LibpodConfig {
    labels: Option<Map>,
}

/// Adds the labels of a container and of its pod from libpod's configurations, which are JSON.
///
/// # Errors
/// A configuration cannot be parsed; the identity is unchanged.
pub fn complete_labels(
    identity: &mut Identity,
    container: &[u8],
    pod: Option<&[u8]>,
) -> Result<(), Unreadable> {
    let parse = |what, json| {
        let config: LibpodConfig = unreadable::parse(what, json, unreadable::MAX_CONTAINER)?;
        Ok(config.labels.unwrap_or_default())
    };
    let labels = parse("libpod's configuration of the container", container)?;
    let of_pod = match pod {
        Some(pod) => parse("libpod's configuration of the pod", pod)?,
        None if identity.role == Role::Alone => labels.clone(),
        None => Map::new(),
    };
    identity.labels = labels;
    identity.pod.labels = of_pod;
    Ok(())
}

/// Adds the name and image from a list of containers/storage. Returns whether the list has the
/// container.
///
/// # Errors
/// The list cannot be parsed; the identity is unchanged.
pub fn complete(identity: &mut Identity, id: &str, list: &[u8]) -> Result<bool, Unreadable> {
    let entries: Vec<Entry> = unreadable::parse("list of containers", list, unreadable::MAX_LIST)?;
    let Some(entry) = entries.into_iter().find(|e| e.id == id) else { return Ok(false) };
    let metadata: Metadata = match entry.metadata.as_deref() {
        Some(text) if !text.is_empty() => unreadable::parse(
            "metadata of a container",
            text.as_bytes(),
            unreadable::MAX_CONTAINER,
        )?,
        _ => Metadata::default(),
    };
    let name = metadata.name.or_else(|| entry.names?.into_iter().next());
    identity.image = metadata.image_name.unwrap_or_default();
    let Some(name) = name.filter(|n| !n.is_empty()) else { return Ok(true) };
    if identity.role == Role::Alone && is_infra_name(&name) {
        identity.role = Role::Sandbox;
        identity.pod.sandbox = id.to_owned();
        identity.pod.annotations.retain(|key, _| !is_own(key));
    } else if identity.role == Role::Alone {
        identity.pod.name.clone_from(&name);
    }
    identity.name = name;
    Ok(true)
}
