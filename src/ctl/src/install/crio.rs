//! CRI-O: a drop-in with a runtime handler (`cri-o: docs/crio.conf.5.md`, `docs/crio.conf.d.5.md`).

use super::{
    document::{Document, Format, path},
    engine::{Asked, Needs, OwnNri, Schema},
    error::InstallError,
    own::Nri,
    plan::Target,
    root::Root,
};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

const FILE: &str = "/etc/crio/crio.conf";
const DIR: &str = "/etc/crio/crio.conf.d";

/// Sorted behind others, such as `99-nvidia.conf`: the last one decides.
const DROP_IN: &str = "/etc/crio/crio.conf.d/zz-nri-container-runtime.conf";

/// On by default since 1.30, there since 1.26 (`cri-o: internal/config/nri/nri.go`).
const NRI_SINCE: (u32, u32) = (1, 26);
const NRI_ON_SINCE: (u32, u32) = (1, 30);

/// What a handler has of the one that CRI-O takes by default.
const COPIED: &[&str] = &[
    "allowed_annotations",
    "privileged_without_host_devices",
    "monitor_path",
    "monitor_cgroup",
    "monitor_exec_cgroup",
    "monitor_env",
    "container_min_memory",
];

/// The files in which there may be runtimes.
pub(crate) fn schemas(root: &Root, file: Option<&Path>) -> Vec<Schema> {
    let drop_ins = root.list(Path::new(DIR)).into_iter().map(|name| Path::new(DIR).join(name));
    let usual = [PathBuf::from(FILE)].into_iter().chain(drop_ins);
    match file {
        Some(file) => vec![schema(file)],
        None => usual.map(|file| schema(&file)).collect(),
    }
}

fn schema(file: &Path) -> Schema {
    Schema {
        file: file.to_owned(),
        format: Format::Toml,
        runtimes: path(["crio", "runtime", "runtimes"]),
        binary: &["runtime_path"],
        default: path(["crio", "runtime", "default_runtime"]),
        own_nri: Some((path(["crio", "nri", "enable_nri"]), false)),
    }
}

/// What CRI-O needs.
pub(crate) fn needs(asked: &Asked<'_>) -> Result<Needs, InstallError> {
    let schema = schema(asked.file.unwrap_or(Path::new(DROP_IN)));
    let mut documents = Vec::new();
    for schema in schemas(asked.root, asked.file) {
        documents.extend(schema.read(asked.root)?);
    }
    let mut target = Target::new(&schema.file, schema.format);
    target.header =
        "# Made by `nrictl install crio`; `nrictl uninstall crio` removes it.\n".to_owned();
    let like = handler(&documents, &schema);
    for runtime in &asked.runtimes {
        let mut value = like.clone();
        value["runtime_path"] = json!(runtime.path());
        // Not that of another handler, which may have another real runtime; nor /run/nri, where
        // NRI's socket is.
        value["runtime_root"] = json!(format!("/run/crio-{}", runtime.name));
        target.set(schema.runtime(&runtime.name), value);
    }
    if let Some(first) = asked.runtimes.first().filter(|_| asked.default) {
        target.set(schema.default.clone(), first.name.as_str());
    }
    let own = path(["crio", "nri", "enable_nri"]);
    let said = last(&documents, &own).and_then(|said| said.as_bool());
    let nri = match (said, asked.version.map(|v| (v.major, v.minor))) {
        (_, Some(version)) if version < NRI_SINCE => OwnNri::None,
        (Some(true), _) => OwnNri::On,
        (Some(false), _) => OwnNri::Off,
        (None, Some(version)) if version >= NRI_ON_SINCE => OwnNri::On,
        (None, Some(_)) => OwnNri::Off,
        (None, None) => OwnNri::Unknown,
    };
    match asked.nri {
        Some(Nri::Ours) if matches!(nri, OwnNri::On | OwnNri::Unknown) => target.set(own, false),
        Some(Nri::Auto | Nri::Engine) => target.unset.push(own),
        _ => {}
    }
    let name = asked.runtimes.first().map_or("", |runtime| &runtime.name);
    let usage = vec![format!("Kubernetes: a RuntimeClass with handler: {name}")];
    Ok(Needs { targets: vec![target], nri, usage, ..Needs::default() })
}

fn last(documents: &[Document], path: &[String]) -> Option<Value> {
    documents.iter().rev().find_map(|document| document.get(path).ok().flatten())
}

/// A handler like the one that is taken by default, as far as files tell; the rest as CRI-O has it
/// for runc and crun.
fn handler(documents: &[Document], schema: &Schema) -> Value {
    let default = last(documents, &schema.default);
    let names = default.iter().filter_map(Value::as_str).chain(["crun", "runc"]);
    let like =
        names.filter_map(|name| last(documents, &schema.runtime(name))).next().unwrap_or_default();
    let mut handler = Map::new();
    for key in ["runtime_path", "runtime_root"] {
        handler.insert(key.to_owned(), json!(""));
    }
    handler.insert("runtime_type".to_owned(), json!("oci"));
    handler.insert(
        "allowed_annotations".to_owned(),
        json!(["io.containers.trace-syscall", "io.kubernetes.cri-o.Devices"]),
    );
    let search = nri_locate::SEARCH_PATH;
    handler.insert("monitor_env".to_owned(), json!([format!("PATH={search}")]));
    for (key, value) in
        like.as_object().into_iter().flatten().filter(|(key, _)| COPIED.contains(&&***key))
    {
        handler.insert(key.clone(), value.clone());
    }
    Value::Object(handler)
}
