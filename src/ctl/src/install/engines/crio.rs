//! CRI-O: a drop-in with a runtime handler (`cri-o: docs/crio.conf.5.md`, `docs/crio.conf.d.5.md`).
//! Drop-ins are merged key by key.

use super::{
    request::{EngineNeeds, FileTarget, InstallRequest, OwnNri},
    table::RuntimeTable,
};
use crate::install::{
    editing::file::{ConfigFile, Format, path},
    error::InstallError,
    install_root::InstallRoot,
};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// The main file.
const FILE: &str = "/etc/crio/crio.conf";
/// The directory of drop-ins.
const DIR: &str = "/etc/crio/crio.conf.d";

/// Our drop-in, sorted after others such as `99-nvidia.conf`: the last file takes precedence.
const DROP_IN: &str = "/etc/crio/crio.conf.d/zz-nri-container-runtime.conf";

/// First version that has NRI (`cri-o: internal/config/nri/nri.go`).
const NRI_SINCE: (u32, u32) = (1, 26);
/// First version that has NRI on by default.
const NRI_ON_SINCE: (u32, u32) = (1, 30);

/// Keys that our handler copies from the default handler.
const COPIED: &[&str] = &[
    "allowed_annotations",
    "privileged_without_host_devices",
    "monitor_path",
    "monitor_cgroup",
    "monitor_exec_cgroup",
    "monitor_env",
    "container_min_memory",
];

/// Returns the tables of all files in which there may be runtimes.
pub(super) fn tables(root: &InstallRoot, file: Option<&Path>) -> Vec<RuntimeTable> {
    let drop_ins = root.list(Path::new(DIR)).into_iter().map(|name| Path::new(DIR).join(name));
    let usual = [PathBuf::from(FILE)].into_iter().chain(drop_ins);
    match file {
        Some(file) => vec![table(file)],
        None => usual.map(|file| table(&file)).collect(),
    }
}

fn table(file: &Path) -> RuntimeTable {
    RuntimeTable {
        file: file.to_owned(),
        format: Format::Toml,
        runtimes: path(["crio", "runtime", "runtimes"]),
        binary: &["runtime_path"],
        default: path(["crio", "runtime", "default_runtime"]),
        own_nri: Some((path(["crio", "nri", "enable_nri"]), false)),
    }
}

/// Returns the changes that CRI-O needs.
pub(super) fn needs(request: &InstallRequest<'_>) -> Result<EngineNeeds, InstallError> {
    let table = table(request.file.unwrap_or(Path::new(DROP_IN)));
    let mut files = Vec::new();
    for table in tables(request.root, request.file) {
        files.extend(table.read(request.root)?);
    }
    let mut target = FileTarget::drop_in(&table.file, "crio");
    let handler = handler(&files, &table);
    for runtime in &request.runtimes {
        let mut value = handler.clone();
        value["runtime_path"] = json!(runtime.binary_text());
        // Each handler has a state directory of its own, since its real runtime may differ.
        // The directory is not `/run/NAME`, since `/run/nri` has NRI's socket.
        value["runtime_root"] = json!(format!("/run/crio-{}", runtime.name));
        target.set(table.runtime(&runtime.name), value);
    }
    if request.default {
        target.set(table.default.clone(), request.name());
    }
    let own_nri = path(["crio", "nri", "enable_nri"]);
    let enabled = effective_value(&files, &own_nri).and_then(|value| value.as_bool());
    let nri = match (enabled, request.version.map(|v| (v.major, v.minor))) {
        (_, Some(version)) if version < NRI_SINCE => OwnNri::None,
        (Some(true), _) => OwnNri::On,
        (Some(false), _) => OwnNri::Off,
        (None, Some(version)) if version >= NRI_ON_SINCE => OwnNri::On,
        (None, Some(_)) => OwnNri::Off,
        (None, None) => OwnNri::Unknown,
    };
    target.switch_nri(request, nri, own_nri, false);
    let usage = vec![format!("Kubernetes: a RuntimeClass with handler: {}", request.name())];
    Ok(EngineNeeds { targets: vec![target], nri, usage, ..EngineNeeds::default() })
}

/// Returns the value at a path. If several files have a value there, the last file takes
/// precedence.
fn effective_value(files: &[ConfigFile], at: &[String]) -> Option<Value> {
    files.iter().rev().find_map(|file| file.get(at).ok().flatten())
}

/// Returns our handler, with the values of the default handler in the files, and with CRI-O's
/// built-in values for runc and crun where that handler has none.
fn handler(files: &[ConfigFile], table: &RuntimeTable) -> Value {
    let default = effective_value(files, &table.default);
    let mut names = default.iter().filter_map(Value::as_str).chain(["crun", "runc"]);
    let model =
        names.find_map(|name| effective_value(files, &table.runtime(name))).unwrap_or_default();
    let annotations = json!(["io.containers.trace-syscall", "io.kubernetes.cri-o.Devices"]);
    let mut handler = Map::from_iter([
        ("runtime_path".to_owned(), json!("")),
        ("runtime_root".to_owned(), json!("")),
        ("runtime_type".to_owned(), json!("oci")),
        ("allowed_annotations".to_owned(), annotations),
        ("monitor_env".to_owned(), json!([format!("PATH={}", nri_locate::SEARCH_PATH)])),
    ]);
    let copied =
        model.as_object().into_iter().flatten().filter(|(key, _)| COPIED.contains(&&***key));
    handler.extend(copied.map(|(key, value)| (key.clone(), value.clone())));
    Value::Object(handler)
}
