//! Decides whether `nrid` or the engine adapts a container: the engine does if its built-in NRI is
//! enabled, unless the configuration overrides this.
//!
//! `nri-host` detects the state of NRI; this file caches the result.

use crate::{engine::containerd, host::process::start_time};
use nri_config::{EngineSettings, InCharge};
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
    /// API socket of containerd, if its CRI created the container.
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

/// Cache: whether NRI is enabled, by process id and start time of containerd, since a restarted
/// containerd may have another configuration.
#[derive(Debug, Default)]
pub struct EngineNri(Mutex<HashMap<(i32, u64), bool>>);

impl EngineNri {
    /// Whether `nrid`, rather than the engine itself, adapts the containers of this engine.
    pub async fn is_ours(
        &self,
        settings: &EngineSettings,
        container_engine: &ContainerEngine,
    ) -> bool {
        let is = |engine: EngineKind| container_engine.name == engine.name();
        let theirs = if is(EngineKind::Containerd) {
            match (settings.containerd, &container_engine.cri) {
                // Outside the namespace of CRI any client may set the annotations of CRI, so
                // they are no evidence that the engine adapts the container.
                (InCharge::Ours, _) | (_, None) => false,
                (InCharge::Engine, Some(_)) => true,
                (InCharge::Auto, Some(socket)) => self.containerd(socket).await,
            }
        } else if is(EngineKind::CriO) {
            is_in_charge(settings.crio, || listens("crio"))
        } else if is(EngineKind::Docker) || is(EngineKind::CriDockerd) {
            is_in_charge(settings.docker, || listens("dockerd"))
        } else {
            false
        };
        !theirs
    }

    async fn containerd(&self, socket: &Path) -> bool {
        let Some(pid) = nri_host::listener(socket) else { return false };
        let Some(started) = start_time(pid) else { return false };
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(on) = known().get(&(pid, started)) {
            return *on;
        }
        let on = containerd_has_nri_on(pid, socket).await;
        tracing::info!(socket = %socket.display(), on, "NRI of containerd, \
        {}", nri_host::describe(pid));
        known().insert((pid, started), on);
        on
    }
}

fn is_in_charge(setting: InCharge, engine_is_on: impl FnOnce() -> bool) -> bool {
    match setting {
        InCharge::Engine => true,
        InCharge::Ours => false,
        InCharge::Auto => engine_is_on(),
    }
}

/// Whether a process with this command name listens on the standard plugin socket.
fn listens(name: &str) -> bool {
    nri_host::listener(Path::new(PLUGIN_SOCKET))
        .is_some_and(|pid| nri_host::command_name(pid) == name)
}

async fn containerd_has_nri_on(pid: i32, socket: &Path) -> bool {
    match spawn_blocking(move || own_nri(pid)).await.unwrap_or(OwnNri::ByVersion) {
        OwnNri::On => true,
        OwnNri::Off => false,
        OwnNri::ByVersion => match containerd::version(socket).await {
            Ok(version) => on_by_default(&version),
            Err(error) => {
                tracing::warn!(
                    error = crate::host::error_chain::chain(&error),
                    "cannot tell containerd's version"
                );
                false
            }
        },
    }
}
