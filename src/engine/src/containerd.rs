//! containerd by its API: labels, and what its CRI keeps of containers and sandboxes.

use crate::{Identity, Map, Unreadable, unreadable};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What containerd knows of a container (`Containers.Get`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Labels, those of the image among them.
    pub labels: Map,
    /// Name of the image.
    pub image: String,
    /// Extensions by name: the bytes inside of their `Any`.
    pub extensions: BTreeMap<String, Vec<u8>>,
    /// Name of the runtime.
    pub runtime: String,
}

const CONTAINER: &str = "io.cri-containerd.container.metadata";
const SANDBOX: &str = "io.cri-containerd.sandbox.metadata";

/// The envelope of both extensions.
#[derive(Deserialize)]
struct Versioned {
    #[serde(rename = "Metadata")]
    metadata: Kept,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Kept {
    config: Option<Config>,
    runtime_handler: Option<String>,
}

/// What CRI was asked for.
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

fn kept(metadata: &Metadata, extension: &'static str) -> Result<Option<Kept>, Unreadable> {
    let Some(bytes) = metadata.extensions.get(extension) else { return Ok(None) };
    unreadable::parse::<Versioned>(extension, bytes, unreadable::ONE).map(|v| Some(v.metadata))
}

/// Adds what containerd knows of the container and, for a member of a pod, of its sandbox.
///
/// # Errors
/// Extensions that are not what CRI writes; then nothing has changed.
pub fn complete(
    identity: &mut Identity,
    own: &Metadata,
    sandbox: Option<&Metadata>,
) -> Result<(), Unreadable> {
    let container = kept(own, CONTAINER)?;
    let pod = match sandbox {
        Some(sandbox) => kept(sandbox, SANDBOX)?,
        None => kept(own, SANDBOX)?,
    };
    if !own.image.is_empty() && identity.image.is_empty() {
        identity.image.clone_from(&own.image);
    }
    match container {
        Some(container) => {
            let config = container.config.unwrap_or_default();
            if let Some(name) = config.metadata.and_then(|m| m.name).filter(|n| !n.is_empty()) {
                identity.name = name;
            }
            identity.labels = config.labels.unwrap_or_default();
            identity.annotations = config.annotations.unwrap_or_default();
        }
        None if pod.is_none() => identity.labels.clone_from(&own.labels),
        None => {}
    }
    if let Some(kept) = pod {
        if let Some(handler) = kept.runtime_handler {
            identity.pod.runtime_handler = handler;
        }
        let config = kept.config.unwrap_or_default();
        let names = config.metadata.unwrap_or_default();
        for (to, from) in [
            (&mut identity.pod.name, names.name),
            (&mut identity.pod.uid, names.uid),
            (&mut identity.pod.namespace, names.namespace),
        ] {
            if let Some(from) = from.filter(|f| !f.is_empty()) {
                *to = from;
            }
        }
        identity.pod.labels = config.labels.unwrap_or_default();
        identity.pod.annotations = config.annotations.unwrap_or_default();
    }
    Ok(())
}
