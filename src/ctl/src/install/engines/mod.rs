//! The files of each engine, and the values that it needs in them.

mod containerd;
mod crio;
mod docker;
pub(super) mod file;
pub(super) mod kind;
mod podman;
pub(super) mod request;

use super::{
    error::InstallError,
    install_root::InstallRoot,
    plan::{InstallPlan, OWN_NAME},
};
use file::EngineFile;
use kind::TargetEngine;
use request::{InstallRequest, OwnNri};
use std::{ffi::OsStr, path::Path};

/// Reads all files in which an engine may have runtimes, in the order in which it reads them.
/// `file` is its main file, if not the usual one.
pub(super) fn files(
    engine: TargetEngine,
    root: &InstallRoot,
    file: Option<&Path>,
) -> Result<Vec<EngineFile>, InstallError> {
    match engine {
        TargetEngine::Docker | TargetEngine::Isulad => Ok(vec![docker::file(engine, root, file)?]),
        TargetEngine::Containerd => containerd::files(root, file),
        TargetEngine::Podman => Ok(podman::files(root, file)?),
        TargetEngine::Crio => Ok(crio::files(root, file)?),
        TargetEngine::Nerdctl => Ok(vec![]),
    }
}

/// Adds the values that the engine needs for a request to a plan. Returns the state of the engine's
/// own NRI, and commands that use the wrapper.
///
/// # Errors
/// The request does not fit the engine or its files.
pub(super) fn install(
    plan: &mut InstallPlan<'_>,
    request: &InstallRequest<'_>,
) -> Result<(OwnNri, Vec<String>), InstallError> {
    let (engine, reserved) = (plan.engine, plan.engine.facts().reserved);
    if let Some(runtime) = request.runtimes.iter().find(|r| reserved.contains(&&*r.name)) {
        let name = runtime.name.clone();
        return Err(InstallError::Reserved { engine: engine.name(), name });
    }
    let files = files(engine, request.root, request.file)?;
    files.iter().try_for_each(|file| check_names(request, file))?;
    let nri = own_nri(engine, request, &files);
    if request.default && request.file.is_none() {
        let is_later = |f: &&EngineFile| f.file.path.file_stem() > Some(OsStr::new(OWN_NAME));
        plan.notes.extend(files.iter().filter(is_later).filter_map(|file| {
            let (name, file) = (file.default_name()?, file.file.path.display());
            Some(format!("{file} is read later and makes {name:?} the default runtime"))
        }));
    }
    let usage = match engine {
        TargetEngine::Docker | TargetEngine::Isulad => {
            docker::install(plan, request, &files[0], nri)
        }
        TargetEngine::Containerd => containerd::install(plan, request, &files, nri),
        TargetEngine::Podman => podman::install(plan, request, &files),
        TargetEngine::Crio => crio::install(plan, request, &files, nri),
        TargetEngine::Nerdctl => nerdctl(plan, request),
    };
    Ok((nri, usage?))
}

/// Fails if a file has another runtime under a requested name.
fn check_names(request: &InstallRequest<'_>, file: &EngineFile) -> Result<(), InstallError> {
    for runtime in &request.runtimes {
        let at = file.runtime(&runtime.name);
        let Some(current) = file.file.get(&at) else { continue };
        let is_same = file.binary(current) == Some(&runtime.binary_text());
        if !is_same && file.wrapper(request.root, current).is_none() {
            let (file, path) = (file.file.path.clone(), at.join("."));
            return Err(InstallError::Collision { file, path, value: current.to_string() });
        }
    }
    Ok(())
}

/// nerdctl needs no configuration: `--runtime` takes the path of a runtime, and `nerdctl.toml` has
/// no key for runtimes (`nerdctl: docs/config.md`, `pkg/cmd/container/run_runtime.go`).
fn nerdctl(
    plan: &mut InstallPlan<'_>,
    request: &InstallRequest<'_>,
) -> Result<Vec<String>, InstallError> {
    if request.default {
        return Err(InstallError::NoDefault { engine: "nerdctl" });
    }
    plan.notes.push("nerdctl needs no configuration: its --runtime takes a path".to_owned());
    let command = |path: String| format!("nerdctl run --rm --runtime {path} IMAGE");
    Ok(request.runtimes.iter().map(|runtime| command(runtime.binary_text())).collect())
}

/// Returns the state of the engine's own NRI, by its files and its version. Of several files that
/// have the switch, the last takes precedence.
fn own_nri(engine: TargetEngine, request: &InstallRequest<'_>, files: &[EngineFile]) -> OwnNri {
    let (version, is_on) = match engine {
        TargetEngine::Containerd => (
            request.version.or_else(|| containerd::least_version(files)),
            containerd::has_nri_on(files),
        ),
        _ => (request.version, files.iter().rev().find_map(EngineFile::has_nri_on)),
    };
    let Some((since, on_since)) = engine.facts().nri else { return OwnNri::None };
    match (is_on, version) {
        (_, Some(version)) if version < since => OwnNri::None,
        (Some(true), _) => OwnNri::On,
        (Some(false), _) => OwnNri::Off,
        (None, Some(version)) if on_since.is_some_and(|since| version >= since) => OwnNri::On,
        (None, None) if on_since.is_some() => OwnNri::Unknown,
        (None, _) => OwnNri::Off,
    }
}
