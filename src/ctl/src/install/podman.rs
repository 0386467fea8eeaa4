//! Podman: a drop-in of `containers.conf`, read since 3.3 (`containers/common: pkg/config`), at each call.
//!
//! Podman gives `--log` only to runtimes in `runtime_supports_json`. Newer versions can append to a list, but older ones do not
//! understand how that is written; a list that replaces is understood by all, so ours has everything that was in it.

use super::{
    document::{Format, path},
    engine::{Asked, Needs, Schema},
    error::InstallError,
    plan::Target,
    root::{Root, WRAPPER},
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const FILES: [&str; 2] = ["/usr/share/containers/containers.conf", "/etc/containers/containers.conf"];
const DIR: &str = "/etc/containers/containers.conf.d";

/// Sorted behind others: the last one decides.
const DROP_IN: &str = "/etc/containers/containers.conf.d/zz-nri-container-runtime.conf";

/// What Podman takes for able of JSON by itself (`containers/common: pkg/config/default.go`).
const JSON: &[&str] = &["crun", "runc", "kata", "runsc", "youki", "krun", "ocijail"];

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
    }
}

/// What Podman needs.
pub(crate) fn needs(asked: &Asked<'_>) -> Result<Needs, InstallError> {
    let schema = schema(asked.file.unwrap_or(Path::new(DROP_IN)));
    let mut target = Target::new(&schema.file, schema.format);
    target.header = "# Made by `nrictl install podman`; `nrictl uninstall podman` removes it.\n".to_owned();
    let supports = path(["engine", "runtime_supports_json"]);
    let mut names: Vec<String> = JSON.iter().map(|name| (*name).to_owned()).collect();
    for schema in schemas(asked.root, asked.file) {
        let document = schema.read(asked.root)?;
        let list = document.map(|document| document.get(&supports)).transpose();
        let list = list.map_err(|e| InstallError::Document(schema.file.clone(), e))?.flatten();
        let items = list.as_ref().and_then(Value::as_array).into_iter().flatten();
        names.extend(items.filter_map(Value::as_str).map(str::to_owned));
    }
    // By the engine's name, or by base name where `--runtime` is a path.
    names.extend(asked.runtimes.iter().flat_map(|runtime| [runtime.name.clone(), runtime.link_name()]));
    names.push(WRAPPER.to_owned());
    let mut list: Vec<String> = Vec::new();
    names.into_iter().for_each(|name| {
        if !list.contains(&name) {
            list.push(name)
        }
    });
    target.set(supports, json!(list));
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
