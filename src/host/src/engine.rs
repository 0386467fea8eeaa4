//! Running engines and the state of their own NRI.

use crate::{
    command_line::{absolute, option_values},
    containerd::{NriConfig, OwnNri, on_by_default},
    docker::NriOptions,
    isulad::NriKeys,
    listening, process, version_of,
};
use nri_locate::{PLUGIN_DIR, PLUGIN_SOCKET};
use procfs::process::Process;
use std::path::{Path, PathBuf};

/// Programs of engines that can have NRI of their own.
const NAMES: [&str; 4] = ["containerd", "crio", DOCKERD, ISULAD];
const DOCKERD: &str = "dockerd";
const ISULAD: &str = "isulad";

/// State of an engine's own NRI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NriState {
    /// NRI is on.
    On {
        /// Socket that the engine listens on for NRI plugins, if any.
        socket: Option<PathBuf>,
        /// Directory of the plugins that the engine launches, if known.
        plugin_path: Option<PathBuf>,
    },
    /// NRI is off, or the engine has none.
    Off,
}

/// An engine that runs on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningEngine {
    /// Name of the program.
    pub name: String,
    /// Process id.
    pub pid: i32,
    /// Version, if known.
    pub version: Option<String>,
    /// State of the engine's own NRI.
    pub nri: NriState,
    /// Configuration file that its command line names, as the engine sees it.
    pub config_file: Option<PathBuf>,
    /// Whether its mount namespace is not that of this process, so that the engine may see other
    /// files at the same paths.
    pub has_own_mounts: bool,
}

/// Returns the running engines, in the order of their process ids. Runs their programs with
/// `--version`.
pub fn running_engines() -> Vec<RunningEngine> {
    let engines = processes().map(|(pid, name)| {
        let nri = nri_of(pid, &name);
        RunningEngine {
            version: version_of(pid),
            config_file: config_file(pid, &name),
            has_own_mounts: !process::has_our_mounts(pid),
            name,
            pid,
            nri,
        }
    });
    let mut engines: Vec<_> = engines.collect();
    engines.sort_by_key(|e| e.pid);
    engines
}

/// Returns the process id of an engine whose own NRI launches the plugins in `plugin_path` in place
/// of `nrid`. Docker does not count: `nrid` adapts Docker's containers even while Docker's NRI is
/// on, so `nrid` launches these plugins as well.
pub fn launcher_of(plugin_path: &Path) -> Option<i32> {
    let launches = |nri| match nri {
        NriState::On { plugin_path: Some(path), .. } => path == plugin_path,
        // All engines but Docker have the same default directory.
        NriState::On { plugin_path: None, .. } => plugin_path == Path::new(PLUGIN_DIR),
        NriState::Off => false,
    };
    let mut others = processes().filter(|(_, name)| name != DOCKERD);
    others.find(|(pid, name)| launches(nri_of(*pid, name))).map(|(pid, _)| pid)
}

/// Returns the process id of iSulad, if it runs, and whether its own NRI is on.
pub fn isulad() -> Option<(i32, bool)> {
    let (pid, name) = process::named(&[ISULAD]).next()?;
    Some((pid, nri_of(pid, &name) != NriState::Off))
}

fn processes() -> impl Iterator<Item = (i32, String)> {
    process::named(&NAMES)
}

/// Returns the configuration file that the command line of an engine names.
fn config_file(pid: i32, name: &str) -> Option<PathBuf> {
    let options: &[&str] = match name {
        DOCKERD => &["config-file"],
        ISULAD => return None,
        _ => &["config", "c"],
    };
    let arguments = Process::new(pid).and_then(|p| p.cmdline()).ok()?;
    let file = option_values(&arguments, options).first().copied()?;
    Some(absolute(pid, file.as_ref()))
}

fn nri_of(pid: i32, name: &str) -> NriState {
    match name {
        "containerd" => nri_of_containerd(pid),
        DOCKERD => nri_of_docker(pid),
        ISULAD => nri_of_isulad(pid),
        _ => nri_by_socket(pid),
    }
}

fn nri_of_containerd(pid: i32) -> NriState {
    let config = NriConfig::of(pid);
    let on = match config.state(pid) {
        OwnNri::On => true,
        OwnNri::Off => false,
        OwnNri::ByVersion => version_of(pid).is_some_and(|v| on_by_default(&v)),
    };
    let socket = (!config.disable_connections).then_some(config.socket_path);
    if on { NriState::On { socket, plugin_path: Some(config.plugin_path) } } else { NriState::Off }
}

/// Returns the state of NRI in a dockerd: on if its configuration enables NRI. NRI is also on if
/// dockerd listens on a default socket of NRI: the configuration may have changed after dockerd
/// read it.
fn nri_of_docker(pid: i32) -> NriState {
    let options = NriOptions::of(pid);
    let socket = if options.enable {
        Some(options.socket_path).filter(|path| !path.as_os_str().is_empty())
    } else if let NriState::On { socket, .. } = nri_by_socket(pid) {
        socket
    } else {
        return NriState::Off;
    };
    NriState::On { socket, plugin_path: Some(options.plugin_path) }
}

/// Returns the state of NRI in an isulad, by its configuration or by its socket, as of dockerd.
fn nri_of_isulad(pid: i32) -> NriState {
    let keys = NriKeys::of(pid);
    let socket = if keys.is_on() {
        keys.socket()
    } else if let NriState::On { socket, .. } = nri_by_socket(pid) {
        socket
    } else {
        return NriState::Off;
    };
    NriState::On { socket, plugin_path: Some(keys.plugin_path) }
}

/// Returns the state of NRI in an engine other than containerd: on if the engine listens on a
/// default socket of NRI.
fn nri_by_socket(pid: i32) -> NriState {
    let defaults = [PLUGIN_SOCKET, "/run/nri/nri.sock"].map(Path::new);
    let mut paths = listening(pid).unwrap_or_default().into_iter();
    let found = paths.find(|path| defaults.contains(&path.as_path()));
    found.map_or(NriState::Off, |path| NriState::On { socket: Some(path), plugin_path: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        io::{BufRead, BufReader},
        process::{Command, Stdio},
    };

    #[test]
    fn docker_with_nri_leaves_the_plugin_directory_to_nrid() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join(DOCKERD);
        fs::copy("/bin/sh", &program).unwrap();
        let flag = format!("--nri-opts=enable,plugin-path={}", dir.path().display());
        let file = dir.path().join("daemon.json");
        let mut command = Command::new(program);
        command.args(["-c", "echo ready; read line", DOCKERD, &flag, "--config-file"]).arg(&file);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // The kernel sets the process's name and command line after `spawn` may have returned.
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut String::new()).unwrap();
        let pid = child.id() as i32;
        let nri = processes().find(|(other, _)| *other == pid).map(|(_, name)| nri_of(pid, &name));
        let launcher = launcher_of(dir.path());
        let engine = running_engines().into_iter().find(|engine| engine.pid == pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(
            nri,
            Some(NriState::On { socket: None, plugin_path: Some(dir.path().to_owned()) })
        );
        assert_eq!(launcher, None);
        let engine = engine.map(|engine| (engine.config_file, engine.has_own_mounts));
        assert_eq!(engine, Some((Some(file), false)));
    }
}
