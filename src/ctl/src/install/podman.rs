//! Podman: a drop-in of `containers.conf`, read since 3.3 (`containers/common: pkg/config`), at
//! each call.
//!
//! Podman gives `--log` only to runtimes in `runtime_supports_json`. Newer versions can append to a
//! list, but older ones do not understand how that is written; a list that replaces is understood
//! by all, so ours has everything that was in it.

use super::{
    document::{Format, path},
    engine::{Asked, Needs, Schema},
    error::InstallError,
    own,
    plan::Target,
    root::{Root, WRAPPER},
    wrapper::Runtime,
};
use nri_locate::{runtime_candidates, standard_dirs};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

const FILES: [&str; 2] =
    ["/usr/share/containers/containers.conf", "/etc/containers/containers.conf"];
const DIR: &str = "/etc/containers/containers.conf.d";

/// Sorted behind others: the last one decides.
const DROP_IN: &str = "/etc/containers/containers.conf.d/zz-nri-container-runtime.conf";

/// What Podman takes for able of JSON by itself (`containers/common: pkg/config/default.go`).
const JSON: &[&str] = &["crun", "runc", "kata", "runsc", "youki", "krun", "ocijail"];

/// What Podman takes for able of `--cgroups=disabled` by itself; runc has no `--cgroup-manager
/// disabled`, which Podman gives then.
///
/// The key that is read has no plural, other than in `containers.conf(5)` (`containers/common:
/// pkg/config/config.go`).
const NO_CGROUPS: [&str; 2] = ["crun", "krun"];

/// The files in which there may be runtimes.
pub(crate) fn schemas(root: &Root, file: Option<&Path>) -> Vec<Schema> {
    let names = root.list(Path::new(DIR)).into_iter().filter(|name| name.ends_with(".conf"));
    let usual = FILES.iter().map(PathBuf::from).chain(names.map(|name| Path::new(DIR).join(name)));
    match file {
        Some(file) => vec![schema(file)],
        None => usual.map(|file| schema(&file)).collect(),
    }
}

fn schema(file: &Path) -> Schema {
    Schema {
        file: file.to_owned(),
        format: Format::Toml,
        runtimes: path(["engine", "runtimes"]),
        binary: &[],
        default: path(["engine", "runtime"]),
        own_nri: None,
    }
}

/// What Podman needs.
pub(crate) fn needs(asked: &Asked<'_>) -> Result<Needs, InstallError> {
    let schema = schema(asked.file.unwrap_or(Path::new(DROP_IN)));
    let mut target = Target::new(&schema.file, schema.format);
    target.header =
        "# Made by `nrictl install podman`; `nrictl uninstall podman` removes it.\n".to_owned();
    // By the engine's name, or by base name where `--runtime` is a path.
    let names = |runtime: &Runtime| [runtime.name.clone(), runtime.link_name()];
    let all: Vec<String> =
        asked.runtimes.iter().flat_map(names).chain([WRAPPER.to_owned()]).collect();
    let supports = path(["engine", "runtime_supports_json"]);
    let list = list(asked, &supports, JSON, all)?;
    target.set(supports, json!(list));
    let mut able = Vec::new();
    for runtime in &asked.runtimes {
        if is_crun(asked, runtime)? {
            able.extend(names(runtime));
        }
    }
    if !able.is_empty() {
        let supports = path(["engine", "runtime_supports_nocgroup"]);
        let list = self::list(asked, &supports, &NO_CGROUPS, able)?;
        target.set(supports, json!(list));
    }
    if let Some(first) = asked.runtimes.first().filter(|_| asked.default) {
        target.set(schema.default.clone(), first.name.as_str());
    }
    for runtime in &asked.runtimes {
        target.set(schema.runtime(&runtime.name), json!([runtime.path()]));
    }
    let name = asked.runtimes.first().map_or("", |runtime| &runtime.name);
    let usage = if asked.default {
        vec!["podman run --rm IMAGE".to_owned()]
    } else {
        vec![format!("podman --runtime {name} run --rm IMAGE")]
    };
    Ok(Needs { targets: vec![target], usage, ..Needs::default() })
}

/// A list that replaces all before: what Podman knows by itself, what files say, and ours.
fn list(
    asked: &Asked<'_>,
    at: &[String],
    known: &[&str],
    ours: Vec<String>,
) -> Result<Vec<String>, InstallError> {
    let mut names: Vec<String> = known.iter().map(|name| (*name).to_owned()).collect();
    for schema in schemas(asked.root, asked.file) {
        let document = schema.read(asked.root)?;
        let list = document.map(|document| document.get(at)).transpose();
        let list = list.map_err(|e| InstallError::Document(schema.file.clone(), e))?.flatten();
        let items = list.as_ref().and_then(Value::as_array).into_iter().flatten();
        names.extend(items.filter_map(Value::as_str).map(str::to_owned));
    }
    names.extend(ours);
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    Ok(names)
}

/// Whether the real runtime is crun, or one that calls itself so.
fn is_crun(asked: &Asked<'_>, runtime: &Runtime) -> Result<bool, InstallError> {
    let real = match &runtime.real {
        Some(real) => Some(real.clone()),
        None => first(asked)?,
    };
    let place = real.and_then(|real| asked.root.real(&real).ok());
    Ok(place
        .and_then(|place| place.file_name().map(|name| NO_CGROUPS.iter().any(|n| name == *n)))
        .unwrap_or(false))
}

/// What the wrapper finds when it is called by its own name.
fn first(asked: &Asked<'_>) -> Result<Option<PathBuf>, InstallError> {
    let text =
        asked.root.read(asked.ours).map_err(|e| InstallError::Read(asked.ours.to_owned(), e))?;
    let settings = own::parse(asked.ours, &text.unwrap_or_default())?.runtime;
    let candidates = match &settings.path {
        Some(path) => vec![path.clone()],
        None => runtime_candidates(&settings),
    };
    let places = |name: &PathBuf| standard_dirs().map(|dir| dir.join(name)).collect::<Vec<_>>();
    let mut places = candidates.iter().flat_map(places);
    Ok(places
        .find(|path| asked.root.is_program(path) && !asked.root.is_ours(&path.to_string_lossy())))
}
