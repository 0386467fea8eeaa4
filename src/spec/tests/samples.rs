//! Tests with OCI configs of real engines: parsing loses nothing, plugins see the fields, and an
//! adjusted field changes only its own place.

#![allow(clippy::unwrap_used, clippy::panic)] // test helpers may panic

mod common;

use common::{
    apply_on, assert_valid, differences, files, protojson, read_json, regenerate, write_json,
};
use nri_spec::{ContainerInfo, OciConfig, to_container};
use serde_json::{Value, json};
use std::path::Path;

/// Removes the white space between the tokens of JSON text. A parser is not used, since it could
/// change numbers and the order of keys.
fn compact(text: &str) -> String {
    let (mut out, mut in_string, mut escaped) = (String::new(), false, false);
    for c in text.chars() {
        if in_string || !c.is_ascii_whitespace() {
            out.push(c);
        }
        in_string = in_string != (c == '"' && !escaped);
        escaped = in_string && c == '\\' && !escaped;
    }
    out
}

fn samples() -> impl Iterator<Item = (String, String, OciConfig)> {
    files("samples", ".config.json").into_iter().map(|path| {
        let text = std::fs::read_to_string(&path).unwrap();
        let config = OciConfig::parse(text.as_bytes()).unwrap();
        (path.file_name().unwrap().to_string_lossy().into_owned(), text, config)
    })
}

#[test]
fn an_oci_config_is_written_as_it_was_parsed() {
    for (name, text, config) in samples() {
        assert_eq!(String::from_utf8(config.to_bytes()).unwrap(), compact(&text), "{name}");
        assert_valid(config.value());
    }
}

#[test]
fn an_empty_adjustment_changes_nothing() {
    for (name, _, config) in samples() {
        let (after, changed) = apply_on(&json!({}), config.value(), &json!({})).unwrap();
        assert_eq!((after.to_string().into_bytes(), changed), (config.to_bytes(), false), "{name}");
    }
}

#[test]
fn plugins_see_the_fields_of_an_engine() {
    for path in files("samples", ".config.json") {
        let config = OciConfig::parse(&std::fs::read(&path).unwrap()).unwrap();
        let container = to_container(&config, &ContainerInfo::default()).unwrap();
        let seen = protojson(&container);
        let expected = path.to_string_lossy().replace(".config.json", ".container.json");
        if regenerate() {
            write_json(Path::new(&expected), &seen);
        } else {
            assert_eq!(
                differences(&seen, &read_json(Path::new(&expected))),
                Vec::<String>::new(),
                "{expected}"
            );
        }
    }
}

#[test]
fn an_adjusted_field_changes_one_place() {
    let resources = |name: &str, value: Value| json!({ "linux": { "resources": { name: value } } });
    let table = [
        (json!({ "annotations": { "x": "y" } }), vec!["/annotations"]),
        (json!({ "env": [{ "key": "PATH", "value": "/x" }] }), vec!["/process/env/"]),
        (json!({ "args": ["x"] }), vec!["/process/args"]),
        (json!({ "mounts": [{ "destination": "/x", "type": "tmpfs" }] }), vec!["/mounts/"]),
        (json!({ "hooks": { "poststop": [{ "path": "/x" }] } }), vec!["/hooks"]),
        (
            json!({ "rlimits": [{ "type": "RLIMIT_NOFILE", "hard": 7, "soft": 7 }] }),
            vec!["/process/rlimits"],
        ),
        (json!({ "linux": { "cgroupsPath": "/x" } }), vec!["/linux/cgroupsPath"]),
        (json!({ "linux": { "oomScoreAdj": { "value": 7 } } }), vec!["/process/oomScoreAdj"]),
        (
            json!({ "linux": { "ioPriority": { "class": "IOPRIO_CLASS_BE" } } }),
            vec!["/process/ioPriority"],
        ),
        (
            json!({ "linux": { "scheduler": { "policy": "SCHED_BATCH" } } }),
            vec!["/process/scheduler"],
        ),
        (
            json!({ "linux": { "seccompPolicy": { "defaultAction": "SCMP_ACT_LOG" } } }),
            vec!["/linux/seccomp"],
        ),
        (json!({ "linux": { "namespaces": [{ "type": "time" }] } }), vec!["/linux/namespaces"]),
        (json!({ "linux": { "sysctl": { "net.x": "1" } } }), vec!["/linux/sysctl"]),
        (json!({ "linux": { "netDevices": { "e": {} } } }), vec!["/linux/netDevices"]),
        (
            json!({ "linux": { "memoryPolicy": { "mode": "MPOL_BIND" } } }),
            vec!["/linux/memoryPolicy"],
        ),
        (json!({ "linux": { "rdt": { "closId": { "value": "c" } } } }), vec!["/linux/intelRdt"]),
        (
            json!({ "linux": { "devices": [{ "path": "/dev/x", "type": "c", "major": 1,
                "minor": 9 }] } }),
            vec!["/linux/devices", "/linux/resources/devices", "/linux/resources"],
        ),
        (
            resources("memory", json!({ "limit": { "value": 7 } })),
            vec![
                "/linux/resources/memory/limit",
                "/linux/resources/memory/swap",
                "/linux/resources/memory",
            ],
        ),
        (resources("cpu", json!({ "shares": { "value": 7 } })), vec!["/linux/resources/cpu"]),
        (resources("pids", json!({ "limit": 7 })), vec!["/linux/resources/pids"]),
        (resources("unified", json!({ "x": "7" })), vec!["/linux/resources/unified"]),
        (
            resources("hugepageLimits", json!([{ "pageSize": "2MB", "limit": 7 }])),
            vec!["/linux/resources/hugepageLimits"],
        ),
        (resources("blockioClass", json!({ "value": "fast" })), vec!["/linux/resources/blockIO"]),
        (resources("rdtClass", json!({ "value": "gold" })), vec!["/linux/intelRdt"]),
    ];
    let host =
        json!({ "blockio": { "fast": { "weight": 7 } }, "rdt": { "gold": { "closID": "gold" } } });
    for (name, _, config) in samples() {
        for (adjust, places) in &table {
            let (after, changed) = apply_on(&host, config.value(), adjust).unwrap();
            let found = differences(config.value(), &after);
            assert!(changed && !found.is_empty(), "{name}: {adjust} changes nothing");
            for path in found {
                // If the adjustment creates the object `resources`, the object is the difference.
                let is_created = path == "/linux/resources" && config.resources().is_none();
                assert!(
                    is_created || places.iter().any(|p| path.starts_with(p)),
                    "{name}: {adjust} changes {path}"
                );
            }
            assert_valid(&after);
        }
    }
}
