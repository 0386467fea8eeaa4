//! Decides whether `nrid` or the engine adapts a container: the engine does if its built-in NRI is
//! enabled, unless the configuration overrides this. Docker adapts containers only if the
//! configuration says so, because Docker's NRI applies only a part of an adjustment.
//!
//! `nri-host` detects the state of NRI; this file caches the result.

use crate::{
    engine::containerd,
    host::{file_access::blocking, process::ProcessIdentity},
};
use nri_config::{AdaptedBy, EngineSettings};
use nri_engine::{EngineKind, Identity, Source};
use nri_host::containerd::{OwnNri, on_by_default, own_nri};
use nri_locate::PLUGIN_SOCKET;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};
use tokio::task::spawn_blocking;

/// containerd's namespace of CRI containers, the only ones that its built-in NRI adapts.
const CRI_NAMESPACE: &str = "k8s.io";

/// The engine that created a container, reduced to the facts needed after the creation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerEngine {
    /// Name of the engine; empty in records of old versions, which did not store it.
    #[serde(rename = "engine")]
    pub name: String,
    /// API socket of containerd, if containerd's CRI plugin created the container.
    #[serde(default)]
    pub cri: Option<PathBuf>,
}

impl ContainerEngine {
    /// Takes the engine from the identity of a container.
    pub fn of(identity: &Identity) -> Self {
        let cri = match &identity.source {
            Some(Source::Containerd { socket, namespace }) if namespace == CRI_NAMESPACE => {
                Some(socket.clone())
            }
            _ => None,
        };
        Self { name: identity.engine.name().to_owned(), cri }
    }

    /// Whether the engine is dockerd.
    pub fn is_docker(&self) -> bool {
        [EngineKind::Docker, EngineKind::CriDockerd].iter().any(|e| e.name() == self.name)
    }
}

/// Caches whether NRI is enabled in each containerd. The key is the process id and start time of
/// containerd, because a restarted containerd may have another configuration.
#[derive(Debug, Default)]
pub struct EngineNri(Mutex<HashMap<ProcessIdentity, bool>>);

impl EngineNri {
    /// Whether `nrid`, rather than the engine itself, adapts the containers of this engine.
    pub async fn is_ours(
        &self,
        settings: &EngineSettings,
        container_engine: &ContainerEngine,
    ) -> bool {
        let engine_adapts = if container_engine.name == EngineKind::Containerd.name() {
            match (settings.containerd, &container_engine.cri) {
                // Outside the namespace of CRI, containerd's NRI adapts no container, whatever
                // CRI annotations a client has set.
                (AdaptedBy::Nrid, _) | (_, None) => false,
                (AdaptedBy::Engine, Some(_)) => true,
                (AdaptedBy::Auto, Some(socket)) => self.is_on_in_containerd(socket).await,
            }
        } else {
            is_adapted_by_engine(settings, container_engine, || listens_for_plugins("crio"))
        };
        !engine_adapts
    }

    /// Whether NRI is enabled in the containerd that listens on `socket`.
    async fn is_on_in_containerd(&self, socket: &Path) -> bool {
        let Some(pid) = blocking(|| nri_host::listener(socket)) else { return false };
        let Some(process) = ProcessIdentity::of(pid) else { return false };
        let cache = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(enabled) = cache().get(&process) {
            return *enabled;
        }
        let enabled = is_nri_on_in(pid, socket).await;
        let engine = nri_host::describe(pid);
        tracing::info!(
            socket = %socket.display(),
            enabled,
            "checked whether NRI is enabled in {engine}"
        );
        cache().insert(process, enabled);
        enabled
    }
}

/// Whether an engine other than containerd adapts its containers itself. `crio_listens` returns
/// whether CRI-O listens on the standard plugin socket.
fn is_adapted_by_engine(
    settings: &EngineSettings,
    engine: &ContainerEngine,
    crio_listens: impl FnOnce() -> bool,
) -> bool {
    if engine.is_docker() {
        return settings.docker == AdaptedBy::Engine;
    }
    if engine.name != EngineKind::CriO.name() {
        return false;
    }
    match settings.crio {
        AdaptedBy::Engine => true,
        AdaptedBy::Nrid => false,
        AdaptedBy::Auto => crio_listens(),
    }
}

/// Whether a process with this command name listens on the standard plugin socket.
fn listens_for_plugins(name: &str) -> bool {
    blocking(|| {
        nri_host::listener(Path::new(PLUGIN_SOCKET))
            .is_some_and(|pid| nri_host::command_name(pid) == name)
    })
}

/// Whether NRI is enabled in the containerd with this pid, which serves its API on `socket`.
async fn is_nri_on_in(pid: i32, socket: &Path) -> bool {
    match spawn_blocking(move || own_nri(pid)).await.unwrap_or(OwnNri::ByVersion) {
        OwnNri::On => true,
        OwnNri::Off => false,
        OwnNri::ByVersion => match containerd::version(socket).await {
            Ok(version) => on_by_default(&version),
            Err(error) => {
                tracing::warn!(
                    error = crate::host::error_chain::chain(&error),
                    "containerd version unknown, its NRI is assumed to be disabled"
                );
                false
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docker_adapts_its_containers_only_if_configured() {
        let is_adapted_by_engine = |kind: EngineKind, setting| {
            let settings = EngineSettings { containerd: setting, crio: setting, docker: setting };
            let engine = ContainerEngine { name: kind.name().to_owned(), cri: None };
            super::is_adapted_by_engine(&settings, &engine, || true)
        };
        for kind in [EngineKind::Docker, EngineKind::CriDockerd] {
            assert!(!is_adapted_by_engine(kind, AdaptedBy::Auto), "{kind:?}");
            assert!(!is_adapted_by_engine(kind, AdaptedBy::Nrid), "{kind:?}");
            assert!(is_adapted_by_engine(kind, AdaptedBy::Engine), "{kind:?}");
        }
        assert!(is_adapted_by_engine(EngineKind::CriO, AdaptedBy::Auto));
        assert!(!is_adapted_by_engine(EngineKind::Podman, AdaptedBy::Engine));
    }
}
