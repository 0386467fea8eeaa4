//! Whether an engine's own NRI is on: then it, and not we, adapts the containers that it can adapt,
//! unless the configuration says otherwise.
//!
//! How it is found out is in `nri-host`; here it is remembered.

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

/// The namespace of containerd in which its CRI has its containers; its NRI sees no others.
const CRI_NAMESPACE: &str = "k8s.io";

/// Which engine made a container, as far as it matters after its creation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maker {
    /// The engine's name; empty in records of versions that did not tell engines apart.
    pub engine: String,
    /// API socket of the containerd whose CRI made it.
    #[serde(default)]
    pub cri: Option<PathBuf>,
}

impl Maker {
    /// As the identity says.
    pub fn of(identity: &Identity) -> Self {
        let cri = match &identity.source {
            Some(Source::Containerd { socket, namespace }) if namespace == CRI_NAMESPACE => {
                Some(socket.clone())
            }
            _ => None,
        };
        Self { engine: identity.engine.name().to_owned(), cri }
    }

    /// Whether dockerd made it.
    pub fn is_docker(&self) -> bool {
        [EngineKind::Docker, EngineKind::CriDockerd].iter().any(|e| e.name() == self.engine)
    }
}

/// What was found out. An engine's process that is another one was started anew, perhaps with
/// another configuration.
#[derive(Debug, Default)]
pub struct EngineNri(Mutex<HashMap<(i32, u64), bool>>);

impl EngineNri {
    /// Whether we adapt this container, and not its engine.
    pub async fn is_ours(&self, settings: &EngineSettings, maker: &Maker) -> bool {
        let is = |engine: EngineKind| maker.engine == engine.name();
        let theirs = if is(EngineKind::Containerd) {
            match (settings.containerd, &maker.cri) {
                // Not by CRI: annotations may be anybody's.
                (InCharge::Ours, _) | (_, None) => false,
                (InCharge::Engine, Some(_)) => true,
                (InCharge::Auto, Some(socket)) => self.containerd(socket).await,
            }
        } else if is(EngineKind::CriO) {
            asked(settings.crio, || listens("crio"))
        } else if is(EngineKind::Docker) || is(EngineKind::CriDockerd) {
            asked(settings.docker, || listens("dockerd"))
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
        tracing::info!(socket = %socket.display(), on, "NRI of containerd, {}", nri_host::describe(pid));
        known().insert((pid, started), on);
        on
    }
}

fn asked(setting: InCharge, engine_is_on: impl FnOnce() -> bool) -> bool {
    match setting {
        InCharge::Engine => true,
        InCharge::Ours => false,
        InCharge::Auto => engine_is_on(),
    }
}

/// Whether a process of this name listens on the socket that plugins look for.
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
