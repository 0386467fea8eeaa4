//! Decides whether `nrid` or the engine adapts a container: the engine does if its built-in NRI is
//! enabled, unless the configuration overrides this. Docker adapts containers only if the
//! configuration says so, because Docker's NRI applies only a part of an adjustment.
//!
//! `nri-host` detects the state of NRI; this file caches the result.
//!
//! An engine with NRI also launches the plugins of the shared directory. `nrid` launches them for
//! its own containers (`plugins/shared.rs`), but for those of which only one instance may
//! run: these are listed as closed, so that containers miss them.

use crate::{
    engine::containerd,
    host::{file_access::blocking, process::ProcessIdentity},
};
use nri_config::{AdaptedBy, EngineSettings};
use nri_engine::{EngineKind, Identity, Role, Source};
use nri_host::containerd::{OwnNri, on_by_default, own_nri};
use nri_locate::PLUGIN_SOCKET;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};
use tokio::task::spawn_blocking;

/// containerd's namespace of CRI containers, the only ones that its built-in NRI adapts.
const CRI_NAMESPACE: &str = "k8s.io";

/// The engine that created a container, reduced to the facts needed after the creation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerEngine {
    /// Name of the engine; empty in a record without it.
    #[serde(rename = "engine")]
    pub name: String,
    /// API socket of containerd, if containerd's CRI plugin created the container.
    #[serde(default)]
    pub cri: Option<PathBuf>,
    /// Whether the container belongs to a pod, and iSulad created it by CRI.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_in_pod_of_isulad: bool,
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
        let is_in_pod_of_isulad =
            identity.engine == EngineKind::Isulad && identity.role != Role::Alone;
        Self { name: identity.engine.name().to_owned(), cri, is_in_pod_of_isulad }
    }

    /// Whether the engine is dockerd.
    pub fn is_docker(&self) -> bool {
        [EngineKind::Docker, EngineKind::CriDockerd].iter().any(|e| e.name() == self.name)
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Caches whether NRI is enabled in each containerd, and in iSulad. The keys are process ids with
/// start times, because an engine that was restarted may have another configuration.
#[derive(Debug, Default)]
pub struct EngineNri {
    containerd: Mutex<HashMap<ProcessIdentity, bool>>,
    isulad: Mutex<Option<(ProcessIdentity, bool)>>,
}

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
        } else if container_engine.is_in_pod_of_isulad {
            match settings.isulad {
                AdaptedBy::Nrid => false,
                AdaptedBy::Engine => true,
                AdaptedBy::Auto => blocking(|| self.is_on_in_isulad(nri_host::isulad)),
            }
        } else {
            is_adapted_by_engine(settings, container_engine, || listens_for_plugins("crio"))
        };
        !engine_adapts
    }

    /// Whether NRI is enabled in iSulad, which `find` searches among all processes.
    fn is_on_in_isulad(&self, find: impl FnOnce() -> Option<(i32, bool)>) -> bool {
        let mut cached = self.isulad.lock();
        if let Some((process, enabled)) = *cached
            && process.is_alive()
        {
            return enabled;
        }
        let Some((pid, enabled)) = find() else { return false };
        let engine = nri_host::describe(pid);
        tracing::info!(enabled, "checked whether NRI is enabled in {engine}");
        *cached = ProcessIdentity::of(pid).map(|process| (process, enabled));
        enabled
    }

    /// Whether NRI is enabled in the containerd that listens on `socket`.
    async fn is_on_in_containerd(&self, socket: &Path) -> bool {
        let Some(pid) = blocking(|| nri_host::listener(socket)) else { return false };
        let Some(process) = ProcessIdentity::of(pid) else { return false };
        let cache = || self.containerd.lock();
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
            let settings = EngineSettings {
                containerd: setting,
                crio: setting,
                docker: setting,
                isulad: setting,
            };
            let engine =
                ContainerEngine { name: kind.name().to_owned(), ..ContainerEngine::default() };
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

    #[tokio::test(flavor = "multi_thread")]
    async fn isulad_adapts_the_containers_of_its_pods_while_its_nri_is_on() {
        let engine_nri = EngineNri::default();
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(!engine_nri.is_on_in_isulad(|| None));
        assert!(engine_nri.is_on_in_isulad(|| Some((own, true))));
        // The process still runs, so it is not searched again.
        assert!(engine_nri.is_on_in_isulad(|| unreachable!()));
        let is_ours = async |isulad, is_in_pod_of_isulad| {
            let settings = EngineSettings { isulad, ..EngineSettings::default() };
            let name = EngineKind::Isulad.name().to_owned();
            let engine = ContainerEngine { name, cri: None, is_in_pod_of_isulad };
            engine_nri.is_ours(&settings, &engine).await
        };
        assert!(!is_ours(AdaptedBy::Auto, true).await);
        assert!(is_ours(AdaptedBy::Nrid, true).await);
        // Its NRI does not know containers without a pod.
        assert!(is_ours(AdaptedBy::Engine, false).await);
    }
}
