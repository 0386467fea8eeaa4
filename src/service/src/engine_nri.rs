//! Whether an engine's own NRI is on: then it, and not we, adapts the containers that it can adapt, unless the configuration says otherwise.
//!
//! How it is found out is in `nri-host`; here it is remembered.

use crate::{containerd, record};
use nri_config::{EngineSettings, InCharge, PLUGIN_SOCKET};
use nri_engine::{Engine, Identity, Source};
use nri_host::containerd::{OwnNri, on_by_default, own_nri};
use std::{
    collections::HashMap,
    path::Path,
    sync::{Mutex, PoisonError},
};
use tokio::task::spawn_blocking;

/// The namespace of containerd in which its CRI has its containers; its NRI sees no others.
const CRI_NAMESPACE: &str = "k8s.io";

/// What was found out. An engine's process that is another one was started anew, perhaps with another configuration.
#[derive(Debug, Default)]
pub struct EngineNri(Mutex<HashMap<(i32, u64), bool>>);

impl EngineNri {
    /// Whether we adapt this container.
    pub async fn is_ours(&self, settings: &EngineSettings, identity: &Identity) -> bool {
        let theirs = match identity.engine {
            Engine::Containerd => match (settings.containerd, &identity.source) {
                (InCharge::Ours, _) => false,
                (InCharge::Engine, _) => true,
                (InCharge::Auto, Some(Source::Containerd { socket, namespace })) => {
                    namespace == CRI_NAMESPACE && self.containerd(socket).await
                }
                (InCharge::Auto, _) => false,
            },
            Engine::CriO => asked(settings.crio, || listens("crio")),
            Engine::Docker | Engine::CriDockerd => asked(settings.docker, || listens("dockerd")),
            _ => false,
        };
        !theirs
    }

    async fn containerd(&self, socket: &Path) -> bool {
        let Some(pid) = nri_host::listener(socket) else { return false };
        let Some(started) = record::start_time(pid) else { return false };
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
    nri_host::listener(Path::new(PLUGIN_SOCKET)).is_some_and(|pid| nri_host::command_name(pid) == name)
}

async fn containerd_has_nri_on(pid: i32, socket: &Path) -> bool {
    match spawn_blocking(move || own_nri(pid)).await.unwrap_or(OwnNri::ByVersion) {
        OwnNri::On => true,
        OwnNri::Off => false,
        OwnNri::ByVersion => match containerd::version(socket).await {
            Ok(version) => on_by_default(&version),
            Err(error) => {
                tracing::warn!(error = crate::chain::chain(&error), "cannot tell containerd's version");
                false
            }
        },
    }
}
