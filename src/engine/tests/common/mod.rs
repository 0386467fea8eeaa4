//! Reads cases of `tests/samples`, and converts identities to JSON.

#![allow(dead_code)] // each test binary uses a part

use nri_engine::{
    Clues, Identity, Map, Source, Unreadable, containerd, cri_o, docker, identify, podman,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A file of `tests/samples`.
pub(crate) struct Case {
    pub(crate) name: String,
    path: PathBuf,
    pub(crate) value: Value,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples")
}

/// Returns all cases, sorted by name.
pub(crate) fn cases() -> Vec<Case> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|e| e.unwrap().path());
    let mut names: Vec<_> =
        entries.map(|p| p.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names.iter().map(|name| Case::named(name)).collect()
}

fn map(value: &Value) -> Map {
    let entries = value.as_object().into_iter().flatten();
    entries.map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned())).collect()
}

impl Case {
    pub(crate) fn named(name: &str) -> Self {
        let path = folder().join(format!("{name}.json"));
        let text = std::fs::read_to_string(&path).unwrap();
        let value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        Self { name: name.to_owned(), path, value }
    }

    pub(crate) fn id(&self) -> &str {
        self.value["id"].as_str().unwrap()
    }

    /// Returns the identity recognized from the OCI config and the runtime call.
    pub(crate) fn identity(&self) -> Identity {
        let config = &self.value["config"];
        let sources = config["mounts"].as_array().into_iter().flatten();
        let mounts: Vec<PathBuf> =
            sources.filter_map(|m| m["source"].as_str()).map(PathBuf::from).collect();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        identify(&Clues {
            id: self.id(),
            annotations: &map(&config["annotations"]),
            bundle: Path::new(&text(&self.value["bundle"])),
            cgroups_path: &text(&config["linux"]["cgroupsPath"]),
            hostname: &text(&config["hostname"]),
            root: Path::new(&text(&config["root"]["path"])),
            mounts: &mounts,
            runtime_root: self.value["runtime_root"].as_str().map(Path::new),
            environment: &map(&self.value["environment"]),
        })
    }

    /// Returns the identity after the engine's stored data was read, if the case has such data.
    pub(crate) fn completed(&self) -> Option<Identity> {
        let has_source = ["docker", "podman", "containerd", "cri-o"]
            .iter()
            .any(|key| self.value.get(*key).is_some());
        has_source.then(|| self.try_completed().unwrap_or_else(|e| panic!("{}: {e}", self.name)))
    }

    /// Returns the identity after the engine's stored data was read.
    ///
    /// # Errors
    /// The stored data cannot be used.
    pub(crate) fn try_completed(&self) -> Result<Identity, Unreadable> {
        let mut identity = self.identity();
        let bytes = |value: &Value| value.to_string().into_bytes();
        let value = &self.value;
        if let Some(files) = value.get("docker") {
            let host = files.get("hostconfig").map(bytes);
            docker::complete(
                &mut identity,
                self.id(),
                &bytes(files.get("config.v2").unwrap_or(&Value::Null)),
                host.as_deref(),
                true,
            )?;
        }
        if let Some(list) = value.get("podman") {
            podman::complete(&mut identity, self.id(), &bytes(list))?;
        }
        if let Some(config) = value.get("cri-o") {
            cri_o::complete(&mut identity, &bytes(config))?;
        }
        if let Some(api) = value.get("containerd") {
            let sandbox = api.get("sandbox").map(metadata);
            containerd::complete(
                &mut identity,
                &metadata(api.get("own").unwrap_or(&Value::Null)),
                sandbox.as_ref(),
            )?;
        }
        Ok(identity)
    }

    /// Replaces the expected identities.
    pub(crate) fn write(&self, expected: &[(&str, Option<Value>)]) {
        let mut value = self.value.clone();
        for (key, seen) in expected {
            match seen {
                Some(seen) => value[key] = seen.clone(),
                None => drop(value.as_object_mut().unwrap().remove(*key)),
            }
        }
        std::fs::write(&self.path, format!("{value:#}\n")).unwrap();
    }
}

/// Returns a container's metadata in the form of containerd's API. A case has extensions as JSON.
fn metadata(value: &Value) -> containerd::Metadata {
    let extensions = value["extensions"].as_object().into_iter().flatten();
    containerd::Metadata {
        labels: map(&value["labels"]),
        image: value["image"].as_str().unwrap_or_default().to_owned(),
        extensions: extensions.map(|(k, v)| (k.clone(), v.to_string().into_bytes())).collect(),
        runtime: value["runtime"].as_str().unwrap_or_default().to_owned(),
    }
}

/// Converts all fields of an identity to JSON.
pub(crate) fn to_json(identity: &Identity) -> Value {
    let Identity { engine, role, pod, name, labels, annotations, image, source } = identity;
    json!({
        "engine": engine.name(),
        "role": format!("{role:?}"),
        "pod": {
            "id": pod.id, "sandbox": pod.sandbox, "name": pod.name, "uid": pod.uid,
                "namespace": pod.namespace,
            "labels": pod.labels, "annotations": pod.annotations,
                "cgroup_parent": pod.cgroup_parent,
            "runtime_handler": pod.runtime_handler,
        },
        "name": name,
        "labels": labels,
        "annotations": annotations,
        "image": image,
        "source": source.as_ref().map(|source| match source {
            Source::Docker { dirs } => json!({ "docker": dirs }),
            Source::Containerd { socket, namespace } => json!({ "containerd": socket,
                "namespace": namespace }),
            Source::Podman { lists } => json!({ "podman": lists }),
            Source::CriO { sandbox } => json!({ "cri-o": sandbox }),
        }),
    })
}
