//! Recognizes containerd: containers of CRI by annotations, containers of other clients by the path
//! of the bundle, `<state>/io.containerd.runtime.v2.task/<namespace>/<id>`. Labels and CRI requests
//! are available only from containerd's API. Sources: containerd, `internal/cri/labels/labels.go`,
//! `internal/cri/store/{container,sandbox}/metadata.go`, `pkg/shim/shim.go`.

use crate::{Clues, EngineKind, Identity, Map, Role, Source, Unreadable, cri, paths, unreadable};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Label and annotation with the container name of nerdctl.
pub(crate) const NERDCTL_NAME: &str = "nerdctl/name";

/// containerd's namespace of CRI containers.
const CRI_NAMESPACE: &str = "k8s.io";
/// Default API socket, used if neither the runtime's environment nor the bundle's path names one.
const SOCKET: &str = "/run/containerd/containerd.sock";

/// Metadata of a container (`Containers.Get`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Labels of the container, which include those of its image.
    pub labels: Map,
    /// Name of the image.
    pub image: String,
    /// Extensions by name, each the bytes of its `Any`.
    pub extensions: BTreeMap<String, Vec<u8>>,
    /// Name of the runtime.
    pub runtime: String,
}

/// Names of the extensions with the CRI metadata of containers and sandboxes.
const CONTAINER: &str = "io.cri-containerd.container.metadata";
const SANDBOX: &str = "io.cri-containerd.sandbox.metadata";

/// JSON envelope of the CRI extensions [`CONTAINER`] and [`SANDBOX`].
#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Versioned {
    version: String,
    metadata: CriMetadata,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct CriMetadata {
    config: Option<Config>,
    runtime_handler: Option<String>,
}

/// Configuration in a CRI request.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Config {
    metadata: Option<Names>,
    labels: Option<Map>,
    annotations: Option<Map>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Names {
    name: Option<String>,
    uid: Option<String>,
    namespace: Option<String>,
}

/// Recognizes a container of CRI. Containers in the namespace of another client are excluded: users
/// of other clients choose annotations (and with `ctr` also ids), and could make an ordinary
/// container look like a sandbox.
pub(crate) fn identify_cri(clues: &Clues<'_>) -> Option<Identity> {
    if task(clues).is_some_and(|(_, namespace)| namespace != CRI_NAMESPACE) {
        return None;
    }
    let mut identity = cri::identify(EngineKind::Containerd, clues, || None)?;
    identity.source = source(clues, CRI_NAMESPACE);
    Some(identity)
}

/// Recognizes a container of a client other than CRI.
pub(crate) fn identify_task(clues: &Clues<'_>) -> Option<Identity> {
    task(clues)?;
    let mut identity = Identity::alone(EngineKind::Ctr, clues);
    identity.source = source(clues, "default");
    Some(identity)
}

/// Returns state directory and namespace, if a shim of containerd created the bundle.
pub(crate) fn task(clues: &Clues<'_>) -> Option<(PathBuf, String)> {
    match paths::components(clues.bundle)?.as_slice() {
        [state @ .., plugin, namespace, id]
            if *id == clues.id && plugin.starts_with("io.containerd.runtime.") =>
        {
            Some((paths::absolute(state), (*namespace).to_owned()))
        }
        _ => None,
    }
}

/// Returns API socket and namespace, if containerd called the runtime. `namespace` is the default.
pub(crate) fn source(clues: &Clues<'_>, namespace: &str) -> Option<Source> {
    let variable =
        |key: &str| clues.environment.get(key).map(String::as_str).filter(|v| !v.is_empty());
    let grpc_socket = variable("GRPC_ADDRESS").and_then(socket);
    let address =
        grpc_socket.or_else(|| socket(variable("TTRPC_ADDRESS")?.strip_suffix(".ttrpc")?));
    let (state, bundle_namespace) = task(clues).unzip();
    if address.is_none() && state.is_none() {
        return None;
    }
    let last_of_root = || clues.runtime_root.and_then(Path::file_name).and_then(|n| n.to_str());
    let namespace = bundle_namespace
        .or_else(|| variable("NAMESPACE").or_else(last_of_root).map(str::to_owned))
        .unwrap_or_else(|| namespace.to_owned());
    let socket_in_state =
        || state.filter(|s| s.components().count() > 1).map(|s| s.join("containerd.sock"));
    let socket = address.or_else(socket_in_state).unwrap_or_else(|| SOCKET.into());
    Some(Source::Containerd { socket, namespace })
}

fn socket(address: &str) -> Option<PathBuf> {
    paths::checked(address.strip_prefix("unix://").unwrap_or(address))
}

/// Parses the CRI metadata in an extension; `None` if the container does not have the extension.
fn cri_metadata(
    metadata: &Metadata,
    extension: &'static str,
) -> Result<Option<CriMetadata>, Unreadable> {
    let Some(bytes) = metadata.extensions.get(extension) else { return Ok(None) };
    let Versioned { version, metadata } =
        unreadable::parse(extension, bytes, unreadable::MAX_CONTAINER)?;
    if version != "v1" {
        return Err(Unreadable::Version { what: extension, found: version });
    }
    Ok(Some(metadata))
}

/// Adds containerd's metadata of the container and, for a member of a pod, of its sandbox.
///
/// # Errors
/// The CRI extensions cannot be parsed; the identity is unchanged.
pub fn complete(
    identity: &mut Identity,
    own: &Metadata,
    sandbox: Option<&Metadata>,
) -> Result<(), Unreadable> {
    if identity.role == Role::Alone {
        complete_alone(identity, own);
        return Ok(());
    }
    let (container, sandbox) = match identity.role {
        Role::Sandbox => (None, Some(own)),
        _ => (cri_metadata(own, CONTAINER)?, sandbox),
    };
    let pod = sandbox.map(|s| cri_metadata(s, SANDBOX)).transpose()?.flatten();
    if identity.image.is_empty() {
        identity.image.clone_from(&own.image);
    }
    identity.labels.clone_from(&own.labels);
    if let Some(Config { metadata, labels, annotations }) = container.and_then(|c| c.config) {
        set_unless_empty(&mut identity.name, metadata.and_then(|m| m.name));
        identity.labels.extend(labels.unwrap_or_default());
        identity.annotations = annotations.unwrap_or_default();
    }
    if let (Some(pod_metadata), Some(sandbox)) = (pod, sandbox) {
        let pod = &mut identity.pod;
        set_unless_empty(&mut pod.runtime_handler, pod_metadata.runtime_handler);
        let Config { metadata, labels, annotations } = pod_metadata.config.unwrap_or_default();
        let names = metadata.unwrap_or_default();
        set_unless_empty(&mut pod.name, names.name);
        set_unless_empty(&mut pod.uid, names.uid);
        set_unless_empty(&mut pod.namespace, names.namespace);
        pod.labels.clone_from(&sandbox.labels);
        pod.labels.extend(labels.unwrap_or_default());
        pod.annotations = annotations.unwrap_or_default();
    }
    Ok(())
}

/// Adds labels and image to a container of a client other than CRI. The container is then
/// recognized as nerdctl's if only the labels have nerdctl's name, and not the annotations.
fn complete_alone(identity: &mut Identity, own: &Metadata) {
    identity.labels.clone_from(&own.labels);
    identity.image.clone_from(&own.image);
    identity.pod.labels.clone_from(&own.labels);
    identity.pod.runtime_handler.clone_from(&own.runtime);
    if let Some(name) =
        own.labels.get(NERDCTL_NAME).filter(|n| identity.engine == EngineKind::Ctr && !n.is_empty())
    {
        identity.engine = EngineKind::Nerdctl;
        identity.name.clone_from(name);
        identity.pod.name.clone_from(name);
    }
}

/// Sets `to`, unless the new value is missing or empty.
fn set_unless_empty(to: &mut String, from: Option<String>) {
    if let Some(from) = from.filter(|f| !f.is_empty()) {
        *to = from;
    }
}
