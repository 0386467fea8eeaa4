//! CRI-O: everything is in annotations, labels and annotations of the container among them as JSON in a string.
//!
//! A pod has no sandbox container by default (`drop_infra_ctr`), and the documents do not tell whether this one has: its containers share a
//! pod by the sandbox's id, and where the sandbox is a container it has that id. Kubernetes' annotations of the pod are copied to its
//! containers; the pod's labels are known of the sandbox only.
//! Sources: CRI-O, `internal/annotations/annotations.go`, `internal/factory/container/container.go`, `server/sandbox_run_linux.go`.

use crate::{Clues, Engine, Identity, Map, Pod, Role, cgroup, kubernetes, unreadable};
use serde::{Deserialize, de::DeserializeOwned};

const PREFIX: &str = "io.kubernetes.cri-o.";

/// Keys, and beginnings of keys, that are the engine's own.
const OWN: &[&str] = &[
    PREFIX,
    "io.container.manager",
    "org.systemd.property.",
    "org.opencontainers.image.stopSignal",
    "platform-runtime-path.crio.io",
];

/// What CRI calls metadata; a container's has a name only.
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
    let names = get("SandboxName").and_then(kubernetes::of_sandbox);
    kubernetes::name_pod(&mut pod, names.as_ref(), &labels);
    let is_own = |key: &str| OWN.iter().any(|own| key.starts_with(own));
    let name = metadata.name.filter(|n| !n.is_empty());
    let name = match role {
        Role::Sandbox => {
            let names = [
                (&mut pod.name, name),
                (&mut pod.namespace, metadata.namespace),
                (&mut pod.uid, metadata.uid),
            ];
            for (to, from) in names {
                *to = from.filter(|f| !f.is_empty()).unwrap_or_else(|| std::mem::take(to));
            }
            pod.sandbox = sandbox;
            pod.labels.clone_from(&labels);
            pod.annotations = annotations.clone().unwrap_or_else(|| clues.annotations_if(|k| !is_own(k)));
            text("ContainerName")
        }
        _ => {
            let of_container = annotations.clone().unwrap_or_default();
            pod.annotations = clues.annotations_if(|key| {
                !is_own(key) && !labels.contains_key(key) && !of_container.contains_key(key)
            });
            name.or_else(|| labels.get(kubernetes::CONTAINER_NAME).cloned()).unwrap_or_else(|| text("Name"))
        }
    };
    Some(Identity {
        engine: Engine::CriO,
        role,
        pod,
        name,
        labels,
        annotations: annotations.unwrap_or_default(),
        image: get("ImageName").or_else(|| get("Image")).unwrap_or_default().to_owned(),
        source: None,
    })
}

/// JSON in an annotation. What is not readable is as if it were not there.
fn json<T: DeserializeOwned>(text: Option<&str>) -> Option<T> {
    unreadable::parse("annotation", text?.as_bytes(), unreadable::ANNOTATION).ok()
}
