//! The handler that is written for containerd. It is a copy of runc's handler, whose options may
//! select the systemd cgroup driver.

use crate::install::engines::file::EngineFile;
use serde_json::{Map, Value, json};

/// Runtime type of the shim that calls runc, or a replacement of runc.
pub(super) const RUNC_SHIM: &str = "io.containerd.runc.v2";

/// Keys that are not copied from runc's handler: keys that are specific to runc, that we set, or
/// that newer versions of containerd refuse.
const NOT_COPIED: &[&str] = &[
    "runtime_type",
    "runtime_engine",
    "runtime_root",
    "pod_annotations",
    "container_annotations",
    "options",
];

/// Returns our handler without `BinaryName`, which differs between runtimes.
pub(super) fn handler(files: &[EngineFile]) -> Value {
    let found = |name: &str| files.iter().rev().find_map(|f| f.file.get(&f.runtime(name)));
    let default = files.iter().rev().find_map(EngineFile::default_name).and_then(found);
    let is_runc =
        |handler: &&Value| handler["runtime_type"].as_str().is_none_or(|kind| kind == RUNC_SHIM);
    let model = found("runc").or(default).filter(is_runc);
    // `*` does not match an annotation whose key has a slash.
    let annotations = json!(["*", "*/*"]);
    let mut handler = Map::from_iter([("runtime_type".to_owned(), json!(RUNC_SHIM))]);
    handler.extend(nonzero_members(model, NOT_COPIED));
    handler.insert("pod_annotations".to_owned(), annotations.clone());
    handler.insert("container_annotations".to_owned(), annotations);
    let options =
        nonzero_members(model.and_then(|model| model.get("options")), &["BinaryName"]).collect();
    handler.insert("options".to_owned(), Value::Object(options));
    Value::Object(handler)
}

/// Returns the members of a table that have a value other than zero, except those in `excluded`.
fn nonzero_members<'a>(
    table: Option<&'a Value>,
    excluded: &'a [&str],
) -> impl Iterator<Item = (String, Value)> + 'a {
    let zeros = [json!(false), json!(""), json!(0), json!([])];
    let members = table.and_then(Value::as_object).into_iter().flatten();
    let kept = members.filter(move |(k, v)| !excluded.contains(&&***k) && !zeros.contains(v));
    kept.map(|(k, v)| (k.clone(), v.clone()))
}
