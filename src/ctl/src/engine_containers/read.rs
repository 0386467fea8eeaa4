//! Reads the files of the containers of one group of monitors. A process of its own does so, which
//! `find` starts and leaves behind if a file system hangs: not even SIGKILL ends a process that
//! waits for some file systems.

use nri_engine::{Clues, Identity, Map, Role, Source, docker, identify};
use nri_host::{MonitoredContainer, is_running, monitor_groups};
use nri_trust::read_regular;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Maximum size in bytes of an engine's file: as in `nrid`.
const MAX_FILE: u64 = 16 << 20;
/// Command name of the adapter between kubelet and Docker.
const CRI_DOCKERD: &str = "cri-dockerd";

/// A container, with its names.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ReadContainer {
    pub(super) container: MonitoredContainer,
    /// Kind of the engine.
    pub(super) engine: String,
    pub(super) is_sandbox: bool,
    /// The id if it has no other name.
    pub(super) name: String,
    /// Name of the pod; empty if it has none.
    pub(super) pod_name: String,
    /// Name of the runtime in the engine's configuration; empty if it is not known.
    pub(super) runtime_name: String,
    pub(super) labels: Map,
}

/// Writes the containers of the group with this id to standard output, as JSON.
///
/// # Errors
/// Standard output cannot be written to.
pub(crate) fn write_containers(group: &str) -> io::Result<()> {
    let group = monitor_groups().into_iter().find(|other| other.id() == group);
    let containers = group.map(|group| group.containers()).unwrap_or_default();
    let with_cri_dockerd = !containers.is_empty() && is_running(CRI_DOCKERD);
    let read: Vec<_> =
        containers.into_iter().map(|found| ReadContainer::of(found, with_cri_dockerd)).collect();
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &read)?;
    out.flush()
}

impl ReadContainer {
    fn of(container: MonitoredContainer, with_cri_dockerd: bool) -> Self {
        let identity = identity(&container, with_cri_dockerd);
        let Identity { engine, role, pod, name, labels, .. } = identity;
        Self {
            engine: engine.name().to_owned(),
            is_sandbox: role == Role::Sandbox,
            name: container.name.clone().unwrap_or(name),
            pod_name: if role == Role::Alone { String::new() } else { pod.name },
            runtime_name: pod.runtime_handler,
            labels,
            container,
        }
    }
}

/// Recognizes the engine by the bundle, as `nrid` does, with the names in Docker's files.
fn identity(found: &MonitoredContainer, with_cri_dockerd: bool) -> Identity {
    let read = |path: &Path| read_regular(&found.real(path), MAX_FILE).ok();
    let config = read(&found.bundle.join("config.json")).unwrap_or_default();
    let config: Value = serde_json::from_slice(&config).unwrap_or_default();
    let text = |pointer| config.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let mounts = config["mounts"].as_array().into_iter().flatten();
    let mounts: Vec<_> =
        mounts.filter_map(|mount| mount["source"].as_str().map(PathBuf::from)).collect();
    let annotations = config["annotations"].as_object().into_iter().flatten();
    let annotations: Map = annotations
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect();
    let mut identity = identify(&Clues {
        id: &found.id,
        annotations: &annotations,
        bundle: &found.bundle,
        cgroups_path: text("/linux/cgroupsPath"),
        hostname: text("/hostname"),
        root: Path::new(text("/root/path")),
        mounts: &mounts,
        runtime_root: None,
        environment: &Map::new(),
    });
    if let Some(Source::Docker { dirs }) = identity.source.clone() {
        let files = dirs.iter().find_map(|dir| {
            Some((read(&dir.join("config.v2.json"))?, read(&dir.join("hostconfig.json"))))
        });
        if let Some((own, host)) = files {
            let host = host.as_deref();
            // Without its files, the container is shown by its id.
            let _ = docker::complete(&mut identity, &found.id, &own, host, with_cri_dockerd);
        }
    }
    identity
}
