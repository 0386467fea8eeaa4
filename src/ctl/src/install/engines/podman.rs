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
use nri_locate::{runtime_candidates, standard_dirs};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// The main files, in the order in which Podman reads them.
const FILES: [&str; 2] =
    ["/usr/share/containers/containers.conf", "/etc/containers/containers.conf"];
/// The directory of drop-ins.
const DIR: &str = "/etc/containers/containers.conf.d";

/// Our drop-in, sorted after others: the last file takes precedence.
const DROP_IN: &str = "/etc/containers/containers.conf.d/zz-nri-container-runtime.conf";

/// Runtimes that Podman lists in `runtime_supports_json` by itself (`containers/common:
/// pkg/config/default.go`).
const JSON_RUNTIMES: &[&str] = &["crun", "runc", "kata", "runsc", "youki", "krun", "ocijail"];

/// Runtimes that Podman lists in `runtime_supports_nocgroup` by itself: it may call them with
/// `--cgroup-manager disabled`, which runc does not support.
///
/// Podman reads the key without the final `s` that `containers.conf(5)` gives it
/// (`containers/common: pkg/config/config.go`).
const NO_CGROUPS: [&str; 2] = ["crun", "krun"];

/// Returns the tables of all files in which there may be runtimes.
pub(super) fn tables(root: &InstallRoot, file: Option<&Path>) -> Vec<RuntimeTable> {
    let names = root.list(Path::new(DIR)).into_iter().filter(|name| name.ends_with(".conf"));
    let usual = FILES.iter().map(PathBuf::from).chain(names.map(|name| Path::new(DIR).join(name)));
    match file {
        Some(file) => vec![table(file)],
        None => usual.map(|file| table(&file)).collect(),
    }
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
    let table = table(request.file.unwrap_or(Path::new(DROP_IN)));
    let mut target = FileTarget::drop_in(&table.file, "podman");
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
    for table in tables(request.root, request.file) {
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
    let runtime = own_config::read(request.root, request.own_config)?.runtime;
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
