//! Docker, and cri-dockerd, which is Docker with labels.

use crate::{Engine, Identity, Map, Role, Unreadable, unreadable};
use serde::Deserialize;

/// What is used of `config.v2.json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct ConfigV2 {
    #[serde(rename = "ID")]
    id: String,
    name: Option<String>,
    config: Option<Config>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Config {
    image: Option<String>,
    labels: Option<Map>,
}

/// What is used of `hostconfig.json`.
#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct HostConfig {
    annotations: Option<Map>,
    runtime: Option<String>,
}

/// Adds what dockerd's files of this container say.
///
/// # Errors
/// Bytes that are not such files, or those of another container; then nothing has changed.
pub fn complete(
    identity: &mut Identity,
    id: &str,
    config_v2: &[u8],
    hostconfig: Option<&[u8]>,
) -> Result<(), Unreadable> {
    let own: ConfigV2 = unreadable::parse("config.v2.json", config_v2, unreadable::ONE)?;
    if own.id != id {
        return Err(Unreadable::Other { what: "config.v2.json", found: own.id });
    }
    let host: HostConfig = match hostconfig {
        Some(bytes) => unreadable::parse("hostconfig.json", bytes, unreadable::ONE)?,
        None => HostConfig::default(),
    };
    let config = own.config.unwrap_or_default();
    let mut labels = config.labels.unwrap_or_default();
    identity.annotations = host.annotations.unwrap_or_default();
    if let Some(handler) = host.runtime {
        identity.pod.runtime_handler = handler;
    }
    if let Some(image) = config.image.filter(|i| !i.is_empty()) {
        identity.image = image;
    }
    if let Some(name) = own.name.filter(|n| !n.is_empty()) {
        identity.name = name.trim_start_matches('/').to_owned();
        identity.pod.name.clone_from(&identity.name);
    }
    let role = match labels.get("io.kubernetes.docker.type").map(String::as_str) {
        Some("podsandbox") => Some((Role::Sandbox, id.to_owned())),
        Some("container") => labels.get("io.kubernetes.sandbox.id").map(|s| (Role::Member, s.clone())),
        _ => None,
    };
    if let Some((role, sandbox)) = role {
        identity.engine = Engine::CriDockerd;
        identity.role = role;
        identity.pod.id.clone_from(&sandbox);
        identity.pod.sandbox = sandbox;
        let take = |key: &str| labels.get(key).cloned().unwrap_or_default();
        identity.pod.name = take("io.kubernetes.pod.name");
        identity.pod.namespace = take("io.kubernetes.pod.namespace");
        identity.pod.uid = take("io.kubernetes.pod.uid");
        identity.name = take("io.kubernetes.container.name");
        let annotations: Vec<String> =
            labels.keys().filter(|k| k.starts_with("annotation.")).cloned().collect();
        for key in annotations {
            if let Some(value) = labels.remove(&key) {
                identity.annotations.insert(key.trim_start_matches("annotation.").to_owned(), value);
            }
        }
    }
    identity.labels = labels;
    Ok(())
}
