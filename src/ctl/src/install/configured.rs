//! The wrapper in the files of an engine, for `nrictl doctor`: under which names it is configured,
//! and whether one of them is the engine's default runtime.

use super::{
    engines::{files, kind::TargetEngine},
    error::InstallError,
    install_root::{InstallRoot, WRAPPER},
    record::InstallRecord,
};
use nri_host::RunningEngine;
use std::path::{Path, PathBuf};

/// The runtimes of an engine that call the wrapper.
#[derive(Debug)]
pub(crate) struct ConfiguredEngine {
    pub(crate) runtimes: Vec<ConfiguredRuntime>,
    /// The default runtime in the engine's files; `None`: the engine's built-in default.
    pub(crate) default: Option<String>,
}

/// A runtime of an engine that calls the wrapper.
#[derive(Debug)]
pub(crate) struct ConfiguredRuntime {
    pub(crate) name: String,
    /// The program that the engine calls, and whether it is one, as the engine sees it.
    pub(crate) binary: (PathBuf, bool),
    /// The file that has the runtime.
    pub(crate) file: PathBuf,
}

impl ConfiguredEngine {
    /// Returns the wrapper's runtime that is the default one.
    pub(crate) fn default_runtime(&self) -> Option<&ConfiguredRuntime> {
        let default = self.default.as_deref()?;
        let is_default =
            |r: &&ConfiguredRuntime| r.name == default || r.binary.0 == Path::new(default);
        self.runtimes.iter().find(is_default)
    }
}

/// Reads the files of an engine: as the process `pid` sees them, if it is in another mount
/// namespace. `file` is its main file, if not the usual one. Returns `None` if nothing in them
/// calls the wrapper.
///
/// # Errors
/// A file cannot be read or parsed.
pub(crate) fn configured(
    engine: TargetEngine,
    pid: Option<i32>,
    file: Option<&Path>,
) -> Result<Option<ConfiguredEngine>, InstallError> {
    let root = pid.map_or_else(InstallRoot::of_this_process, InstallRoot::of_process);
    let mut configured = ConfiguredEngine { runtimes: Vec::new(), default: None };
    for file in files(engine, &root, file)? {
        let runtime = |name: &str, path: &str| {
            let binary = (PathBuf::from(path), root.is_program(Path::new(path)));
            ConfiguredRuntime { name: name.to_owned(), binary, file: file.file.path.clone() }
        };
        for (name, value) in file.all() {
            let Some(path) = file.binary(value).filter(|path| calls_wrapper(&root, path)) else {
                continue;
            };
            // A later file replaces the runtime of an earlier one.
            configured.runtimes.retain(|earlier| earlier.name != *name);
            configured.runtimes.push(runtime(name, path));
        }
        if let Some(default) = file.default_name() {
            // Podman's default runtime may be a path.
            let is_known = configured.runtimes.iter().any(|r| r.binary.0 == Path::new(default));
            if calls_wrapper(&root, default) && !is_known {
                configured.runtimes.push(runtime(default, default));
            }
            configured.default = Some(default.to_owned());
        }
    }
    Ok((!configured.runtimes.is_empty()).then_some(configured))
}

/// Engines that have the wrapper in their files.
#[derive(Debug, Default)]
pub(crate) struct WrapperUsers<'a> {
    /// Those that run as daemons.
    pub(crate) running: Vec<&'a RunningEngine>,
    /// Whether there are others: Podman, and daemons that do not run.
    pub(crate) has_others: bool,
}

impl WrapperUsers<'_> {
    /// Whether no engine has the wrapper.
    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty() && !self.has_others
    }
}

/// Finds the engines that have the wrapper in their files. One whose files cannot be read does not
/// count.
pub(crate) fn wrapper_users(running: &[RunningEngine]) -> WrapperUsers<'_> {
    let mut users = WrapperUsers::default();
    for engine in TargetEngine::WITH_FILES {
        let has_wrapper = |pid, file| matches!(configured(engine, pid, file), Ok(Some(_)));
        let mut processes = running.iter().filter(|r| r.name == engine.program()).peekable();
        if processes.peek().is_none() {
            users.has_others |= has_wrapper(None, None);
        }
        users.running.extend(processes.filter(|process| {
            let pid = process.has_own_mounts.then_some(process.pid);
            // CRI-O reads drop-ins besides the file of its `--config`.
            let file = process.config_file.as_deref().filter(|_| engine != TargetEngine::Crio);
            has_wrapper(pid, file)
        }));
    }
    users
}

/// Whether a runtime's path names the wrapper, a link to it, or a script that has its name.
pub(crate) fn calls_wrapper(root: &InstallRoot, path: &str) -> bool {
    let is_script = || {
        let text = root.read(Path::new(path)).ok().flatten().unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        text.starts_with("#!") && text.contains(WRAPPER)
    };
    root.is_ours(path) || (path.starts_with('/') && is_script())
}

/// Returns the names of the engines that `nrictl install` has configured on this machine, for this
/// user.
///
/// # Errors
/// The record cannot be read.
pub(crate) fn recorded_engines() -> Result<Vec<String>, InstallError> {
    Ok(InstallRecord::read(&InstallRoot::of_this_process())?.engines.into_keys().collect())
}
