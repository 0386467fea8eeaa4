//! Shared test helpers: a simulated host, protojson, and differences between OCI configs.
#![allow(dead_code)] // each test file uses only some of the helpers

use nri_spec::cdi::{CdiRegistry, CdiSpecFile};
use nri_spec::{ApplyContext, HostDevice, HostDeviceKind, OciConfig, Propagation, apply};
use protobuf::MessageFull;
use serde_json::Value;
use std::error::Error;
use std::path::{Path, PathBuf};

/// Parses a message from protojson.
pub(crate) fn message<M: MessageFull>(json: &Value) -> M {
    protobuf_json_mapping::parse_from_str(&json.to_string())
        .unwrap_or_else(|e| panic!("{json}: {e}"))
}

/// Prints a message as protojson, with sorted keys: maps of the protocol have no order.
pub(crate) fn protojson(message: &dyn protobuf::MessageDyn) -> Value {
    let text = protobuf_json_mapping::print_to_string(message).unwrap();
    sorted(&serde_json::from_str(&text).unwrap())
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut entries: Vec<_> = fields.iter().map(|(k, v)| (k.clone(), sorted(v))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// Applies an adjustment on a host that is described by data: `{"blockio": {CLASS: …}, "rdt":
/// {CLASS: …}, "propagation": {PATH: "shared"}, "devices": {PATH: {"kind": "c", …}}, "cdi":
/// [{"path", "priority", "content"}]}`.
pub(crate) fn apply_on(
    host: &Value,
    spec: &Value,
    adjust: &Value,
) -> Result<(Value, bool), String> {
    let registry =
        CdiRegistry::new(host["cdi"].as_array().into_iter().flatten().map(|file| CdiSpecFile {
            path: file["path"].as_str().unwrap().into(),
            priority: usize::try_from(file["priority"].as_u64().unwrap()).unwrap(),
            content: file["content"].clone(),
        }));
    if let Some(error) = registry.errors().first() {
        return Err(chain(error));
    }
    let ctx = ApplyContext {
        blockio: &|class| host["blockio"].get(class).cloned(),
        rdt: &|class| host["rdt"].get(class).cloned(),
        cdi: &registry,
        device: &|path| device(host["devices"].get(path)?),
        propagation: &|path| propagation(host["propagation"].get(path)?),
        swap_accounting: &|| host["swapAccounting"] != false,
    };
    let mut config = OciConfig::from_value(spec.clone()).unwrap();
    match apply(&mut config, &message(adjust), &ctx) {
        Ok(applied) => Ok((config.into_value(), applied.changed)),
        Err(e) => {
            let after = config.value().to_string();
            assert_eq!(after, spec.to_string(), "a failed adjustment changed the OCI config");
            Err(chain(&e))
        }
    }
}

fn device(value: &Value) -> Option<HostDevice> {
    let kind = match value["kind"].as_str()? {
        "b" => HostDeviceKind::Block,
        "c" => HostDeviceKind::Char,
        _ => HostDeviceKind::Fifo,
    };
    let mode = u32::try_from(value["mode"].as_u64()?).unwrap();
    Some(HostDevice {
        kind,
        major: value["major"].as_i64()?,
        minor: value["minor"].as_i64()?,
        mode,
    })
}

fn propagation(value: &Value) -> Option<Propagation> {
    match value.as_str()? {
        "shared" => Some(Propagation::Shared),
        "slave" => Some(Propagation::Slave),
        _ => Some(Propagation::Private),
    }
}

/// Returns the text of an error, followed by those of all its sources.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(e) = source {
        text = format!("{text}: {e}");
        source = e.source();
    }
    text
}

/// Returns the paths at which two values differ; lists are compared entry by entry.
pub(crate) fn differences(a: &Value, b: &Value) -> Vec<String> {
    fn walk(path: &str, a: Option<&Value>, b: Option<&Value>, found: &mut Vec<String>) {
        match (a, b) {
            (Some(Value::Object(x)), Some(Value::Object(y))) => {
                let keys = x.keys().chain(y.keys().filter(|k| !x.contains_key(*k)));
                for key in keys {
                    walk(&format!("{path}/{key}"), x.get(key), y.get(key), found);
                }
                // Compare the order of the common keys.
                let order = |x: &serde_json::Map<String, Value>,
                             y: &serde_json::Map<String, Value>| {
                    x.keys().filter(|k| y.contains_key(*k)).cloned().collect::<Vec<_>>()
                };
                if order(x, y) != order(y, x) {
                    found.push(format!("{path} (order)"));
                }
            }
            (Some(Value::Array(x)), Some(Value::Array(y))) => {
                for i in 0..x.len().max(y.len()) {
                    walk(&format!("{path}/{i}"), x.get(i), y.get(i), found);
                }
            }
            (a, b) if a == b => {}
            _ => found.push(path.to_owned()),
        }
    }
    let mut found = Vec::new();
    walk("", Some(a), Some(b), &mut found);
    found
}

/// Checks that `oci-spec`, a strict parser, accepts the OCI config.
pub(crate) fn assert_valid(spec: &Value) {
    if let Err(e) = serde_json::from_str::<oci_spec::runtime::Spec>(&spec.to_string()) {
        panic!("not a valid OCI config: {e}\n{spec}");
    }
}

/// Whether to rewrite the expected results; review the changes afterwards.
pub(crate) fn regenerate() -> bool {
    std::env::var_os("NRI_REGENERATE").is_some()
}

/// Returns all files whose names have this ending, below a folder of the tests, sorted.
pub(crate) fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder), &mut found);
    found.retain(|p| p.to_string_lossy().ends_with(ending));
    found.sort();
    assert!(!found.is_empty(), "no files in {folder}");
    found
}

/// Reads a file as JSON.
pub(crate) fn read_json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Writes a file as JSON.
pub(crate) fn write_json(path: &Path, value: &Value) {
    std::fs::write(path, format!("{value:#}\n")).unwrap();
}
