//! Podman: a drop-in of `containers.conf`, read since 3.3 (`containers/common: pkg/config`), at
//! each call. Drop-ins are merged key by key; a list replaces the list of earlier files.
//!
//! Podman passes `--log` only to runtimes in `runtime_supports_json`. Newer versions can append to
//! a list, in a form that older versions do not parse. A list that replaces the earlier lists works
//! in all versions, so our list repeats all their items.

use super::{file::EngineFile, request::InstallRequest};
use crate::install::{
    editing::{
        error::FileError,
        file::{ConfigFile, path},
    },
    error::InstallError,
    install_root::{InstallRoot, WRAPPER},
    own_config,
    plan::{InstallPlan, OWN_NAME},
    runtimes::WrapperRuntime,
};
use nri_locate::{CONFIG_FILE, runtime_candidates, standard_dirs};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// The main files, in the order in which Podman reads them.
const FILES: [&str; 2] =
    ["/usr/share/containers/containers.conf", "/etc/containers/containers.conf"];

/// Runtimes that Podman lists in `runtime_supports_json` by itself (`containers/common:
/// pkg/config/default.go`).
const JSON_RUNTIMES: &[&str] = &["crun", "runc", "kata", "runsc", "youki", "krun", "ocijail"];

/// Runtimes that Podman lists in `runtime_supports_nocgroup` by itself: it may call them with
/// `--cgroup-manager disabled`, which runc does not support.
///
/// Podman reads the key without the final `s` that `containers.conf(5)` gives it
/// (`containers/common: pkg/config/config.go`).
const NO_CGROUPS: [&str; 2] = ["crun", "krun"];

/// Returns the main file to which drop-ins belong: the system's, or that of the user, which
/// rootless Podman reads after the system's files.
fn main_file(root: &InstallRoot) -> PathBuf {
    match root.user() {
        Some(user) => user.config_home.join("containers/containers.conf"),
        None => PathBuf::from(FILES[1]),
    }
}

/// Returns all files in which there may be runtimes: those of the system, or those of the user.
pub(super) fn files(root: &InstallRoot, file: Option<&Path>) -> Result<Vec<EngineFile>, FileError> {
    let paths = match (file, root.user()) {
        (Some(file), _) => vec![file.to_owned()],
        (None, Some(_)) => with_drop_ins(root, &main_file(root)),
        (None, None) => system_files(root),
    };
    paths.iter().map(|path| engine_file(root, path)).collect()
}

fn system_files(root: &InstallRoot) -> Vec<PathBuf> {
    [[PathBuf::from(FILES[0])].to_vec(), with_drop_ins(root, Path::new(FILES[1]))].concat()
}

fn with_drop_ins(root: &InstallRoot, main: &Path) -> Vec<PathBuf> {
    [[main.to_owned()].to_vec(), root.files(&main.with_extension("conf.d"), ".conf")].concat()
}

fn engine_file(root: &InstallRoot, file: &Path) -> Result<EngineFile, FileError> {
    Ok(EngineFile {
        file: ConfigFile::read(root, file)?,
        runtimes: path(["engine", "runtimes"]),
        binary: &[],
        default: path(["engine", "runtime"]),
        own_nri: Default::default(),
    })
}

/// Adds the values that Podman needs. Returns commands that use the wrapper.
pub(super) fn install(
    plan: &mut InstallPlan<'_>,
    request: &InstallRequest<'_>,
    files: &[EngineFile],
) -> Result<Vec<String>, InstallError> {
    let root = request.root;
    let drop_in = main_file(root).with_extension("conf.d").join(OWN_NAME).with_extension("conf");
    let file = engine_file(root, request.file.unwrap_or(&drop_in))?;
    plan.begin(&file, if root.user().is_some() { "podman --user" } else { "podman" })?;
    // Podman looks up the runtime's name, or the base name if `--runtime` is a path.
    let names = |runtime: &WrapperRuntime| [runtime.name.clone(), runtime.link_name()];
    let all = request.runtimes.iter().flat_map(names).chain([WRAPPER.to_owned()]).collect();
    let mut crun = Vec::new();
    for runtime in &request.runtimes {
        if is_crun(request, runtime)? {
            crun.extend(names(runtime));
        }
    }
    let of_system = root.user().map(|_| system_files(root)).unwrap_or_default();
    let of_system = of_system.iter().map(|path| engine_file(root, path));
    let earlier: Vec<EngineFile> =
        of_system.chain(files.iter().cloned().map(Ok)).collect::<Result<_, _>>()?;
    for (key, known, ours) in [
        ("runtime_supports_json", JSON_RUNTIMES, all),
        ("runtime_supports_nocgroup", &NO_CGROUPS, crun),
    ] {
        if !ours.is_empty() {
            let at = path(["engine", key]);
            plan.set(&file.file, &at, list(&earlier, &at, known, ours))?;
        }
    }
    plan.set_runtimes(request, &file, |runtime| json!([runtime.binary_text()]))?;
    Ok(if request.default {
        vec!["podman run --rm IMAGE".to_owned()]
    } else {
        vec![format!("podman --runtime {} run --rm IMAGE", request.name())]
    })
}

/// Returns a list that replaces the lists of earlier files: the built-in names, the names in those
/// lists, and ours.
fn list(files: &[EngineFile], at: &[String], known: &[&str], ours: Vec<String>) -> Vec<String> {
    let lists = files.iter().filter_map(|file| file.file.get(at)?.as_array()).flatten();
    let known = known.iter().copied().chain(lists.filter_map(Value::as_str));
    let mut names: Vec<String> = known.map(str::to_owned).chain(ours).collect();
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

/// Whether the real runtime is crun or krun, by its base name.
fn is_crun(request: &InstallRequest<'_>, runtime: &WrapperRuntime) -> Result<bool, InstallError> {
    let real = match &runtime.real {
        Some(real) => Some(real.clone()),
        None => default_runtime(request)?,
    };
    let real = real.and_then(|real| request.root.real(&real).ok());
    let name = real.as_deref().and_then(Path::file_name);
    Ok(name.is_some_and(|name| NO_CGROUPS.iter().any(|known| name == *known)))
}

/// Returns the real runtime that the wrapper finds when it is called by its own name.
fn default_runtime(request: &InstallRequest<'_>) -> Result<Option<PathBuf>, InstallError> {
    // A user without a configuration has the system's.
    let is_missing = request.root.user().is_some() && !request.root.exists(request.own_config);
    let own_config = if is_missing { Path::new(CONFIG_FILE) } else { request.own_config };
    let runtime = own_config::read(request.root, own_config)?.runtime;
    let candidates = match &runtime.path {
        Some(path) => vec![path.clone()],
        None => runtime_candidates(&runtime),
    };
    let in_dirs = |name: &PathBuf| standard_dirs().map(|dir| dir.join(name)).collect::<Vec<_>>();
    let mut paths = candidates.iter().flat_map(in_dirs);
    Ok(paths.find(|path| {
        request.root.is_program(path) && !request.root.is_ours(&path.to_string_lossy())
    }))
}
