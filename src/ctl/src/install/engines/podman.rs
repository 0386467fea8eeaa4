//! Podman: a drop-in of `containers.conf`, read since 3.3 (`containers/common: pkg/config`), at
//! each call. Drop-ins are merged key by key; a list replaces the list of earlier files.
//!
//! Podman passes `--log` only to runtimes in `runtime_supports_json`. Newer versions can append to
//! a list, in a form that older versions do not parse. A list that replaces the earlier lists works
//! in all versions, so our list repeats all their items.

use super::{
    request::{EngineNeeds, FileTarget, InstallRequest},
    table::RuntimeTable,
};
use crate::install::{
    editing::file::{Format, path},
    error::InstallError,
    install_root::{InstallRoot, WRAPPER},
    own_config,
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
/// Our drop-in, sorted after others: the last file takes precedence.
const DROP_IN: &str = "zz-nri-container-runtime.conf";

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

/// Returns the directory of the drop-ins of a main file.
fn drop_in_dir(main: &Path) -> PathBuf {
    main.with_extension("conf.d")
}

/// Returns the tables of all files in which there may be runtimes: those of the system, or those of
/// the user.
pub(super) fn tables(root: &InstallRoot, file: Option<&Path>) -> Vec<RuntimeTable> {
    match (file, root.user()) {
        (Some(file), _) => vec![table(file)],
        (None, Some(_)) => with_drop_ins(root, &main_file(root)),
        (None, None) => system_tables(root),
    }
}

fn system_tables(root: &InstallRoot) -> Vec<RuntimeTable> {
    let [distribution, main] = FILES.map(Path::new);
    [table(distribution)].into_iter().chain(with_drop_ins(root, main)).collect()
}

fn with_drop_ins(root: &InstallRoot, main: &Path) -> Vec<RuntimeTable> {
    let dir = drop_in_dir(main);
    let names = root.list(&dir).into_iter().filter(|name| name.ends_with(".conf"));
    [table(main)].into_iter().chain(names.map(|name| table(&dir.join(name)))).collect()
}

fn table(file: &Path) -> RuntimeTable {
    RuntimeTable {
        file: file.to_owned(),
        format: Format::Toml,
        runtimes: path(["engine", "runtimes"]),
        binary: &[],
        default: path(["engine", "runtime"]),
        own_nri: None,
    }
}

/// Returns the changes that Podman needs.
pub(super) fn needs(request: &InstallRequest<'_>) -> Result<EngineNeeds, InstallError> {
    let drop_in = drop_in_dir(&main_file(request.root)).join(DROP_IN);
    let table = table(request.file.unwrap_or(&drop_in));
    let engine = if request.root.user().is_some() { "podman --user" } else { "podman" };
    let mut target = FileTarget::drop_in(&table.file, engine);
    // Podman looks up the runtime's name, or the base name if `--runtime` is a path.
    let names = |runtime: &WrapperRuntime| [runtime.name.clone(), runtime.link_name()];
    let all = request.runtimes.iter().flat_map(names).chain([WRAPPER.to_owned()]).collect();
    let mut crun = Vec::new();
    for runtime in &request.runtimes {
        if is_crun(request, runtime)? {
            crun.extend(names(runtime));
        }
    }
    for (key, known, ours) in [
        ("runtime_supports_json", JSON_RUNTIMES, all),
        ("runtime_supports_nocgroup", &NO_CGROUPS, crun),
    ] {
        if !ours.is_empty() {
            let at = path(["engine", key]);
            let list = list(request, &at, known, ours)?;
            target.set(at, json!(list));
        }
    }
    if request.default {
        target.set(table.default.clone(), request.name());
    }
    for runtime in &request.runtimes {
        target.set(table.runtime(&runtime.name), json!([runtime.binary_text()]));
    }
    let usage = match request.default {
        true => "podman run --rm IMAGE".to_owned(),
        false => format!("podman --runtime {} run --rm IMAGE", request.name()),
    };
    Ok(EngineNeeds { targets: vec![target], usage: vec![usage], ..EngineNeeds::default() })
}

/// Returns a list that replaces the lists of earlier files: the built-in names, the names in those
/// lists, and ours.
fn list(
    request: &InstallRequest<'_>,
    at: &[String],
    known: &[&str],
    ours: Vec<String>,
) -> Result<Vec<String>, InstallError> {
    let mut names: Vec<String> = known.iter().map(|name| (*name).to_owned()).collect();
    let of_system = match request.root.user() {
        Some(_) => system_tables(request.root),
        None => Vec::new(),
    };
    for table in of_system.into_iter().chain(tables(request.root, request.file)) {
        let Some(file) = table.read(request.root)? else { continue };
        let list = file.get(at)?;
        let items = list.as_ref().and_then(Value::as_array).into_iter().flatten();
        names.extend(items.filter_map(Value::as_str).map(str::to_owned));
    }
    names.extend(ours);
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    Ok(names)
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
