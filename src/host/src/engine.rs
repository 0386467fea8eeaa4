//! Running engines and the state of their own NRI.

use crate::{
    containerd::{NriConfig, OwnNri, on_by_default},
    listening, process, version_of,
};
use nri_locate::{PLUGIN_DIR, PLUGIN_SOCKET};
use std::path::{Path, PathBuf};

/// Programs of engines that can have NRI of their own.
const NAMES: [&str; 3] = ["containerd", "crio", "dockerd"];

/// Whether an engine's own NRI is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NriState {
    /// NRI is on.
    On {
        /// Socket, if it listens.
        socket: Option<PathBuf>,
        /// Directory of the plugins that it launches, if known.
        plugin_path: Option<PathBuf>,
    },
    /// NRI is off, or the engine has none.
    Off,
}

/// An engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningEngine {
    /// Name of its program.
    pub name: String,
    /// Its process.
    pub pid: i32,
    /// Version, if known.
    pub version: Option<String>,
    /// Its own NRI.
    pub nri: NriState,
}

/// Returns the running engines, in the order of their process ids. Runs their programs with
/// `--version`.
pub fn running_engines() -> Vec<RunningEngine> {
    let engines = processes().map(|(pid, name)| {
        let nri = nri_of(pid, &name);
        RunningEngine { version: version_of(pid), name, pid, nri }
    });
    let mut engines: Vec<_> = engines.collect();
    engines.sort_by_key(|e| e.pid);
    engines
}

/// Returns the process of an engine whose own NRI launches the plugins of this directory.
pub fn launcher_of(plugin_path: &Path) -> Option<i32> {
    let launches = |nri| match nri {
        NriState::On { plugin_path: Some(path), .. } => path == plugin_path,
        // All engines have the same default.
        NriState::On { plugin_path: None, .. } => plugin_path == Path::new(PLUGIN_DIR),
        NriState::Off => false,
    };
    processes().find(|(pid, name)| launches(nri_of(*pid, name))).map(|(pid, _)| pid)
}

fn processes() -> impl Iterator<Item = (i32, String)> {
    process::named(&NAMES)
}

fn nri_of(pid: i32, name: &str) -> NriState {
    if name == "containerd" { containerd(pid) } else { by_socket(pid) }
}

fn containerd(pid: i32) -> NriState {
    let config = NriConfig::of(pid);
    let on = match config.is_on(pid) {
        OwnNri::On => true,
        OwnNri::Off => false,
        OwnNri::ByVersion => version_of(pid).is_some_and(|v| on_by_default(&v)),
    };
    let socket = (!config.disable_connections).then_some(config.socket_path);
    if on { NriState::On { socket, plugin_path: Some(config.plugin_path) } } else { NriState::Off }
}

/// An engine that listens on the plugin socket has NRI.
fn by_socket(pid: i32) -> NriState {
    let usual = [PLUGIN_SOCKET, "/run/nri/nri.sock"].map(Path::new);
    let found =
        listening(pid).unwrap_or_default().into_iter().find(|path| usual.contains(&path.as_path()));
    found.map_or(NriState::Off, |path| NriState::On { socket: Some(path), plugin_path: None })
}
