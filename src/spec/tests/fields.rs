//! Checks that each field of an adjustment has an effect. The fields come from the descriptor of
//! the protocol, so that a new field cannot be forgotten.

#![allow(clippy::unwrap_used, clippy::panic)] // test helpers may panic

mod common;

use common::{apply_on, message, protojson};
use nri_api::proto::ContainerAdjustment;
use protobuf::MessageFull;
use protobuf::reflect::{MessageDescriptor, RuntimeFieldType, RuntimeType};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Adds the paths of all fields, `.`-separated, as protojson spells them. A message that only wraps
/// a value counts as one field.
fn leaves(message: &MessageDescriptor, prefix: &str, found: &mut BTreeSet<String>) {
    for field in message.fields() {
        let path = format!("{prefix}{}", field.proto().json_name());
        let inner = match field.runtime_field_type() {
            RuntimeFieldType::Singular(RuntimeType::Message(m))
                if !m.name().starts_with("Optional") =>
            {
                Some(m)
            }
            RuntimeFieldType::Repeated(RuntimeType::Message(m)) => Some(m),
            _ => None,
        };
        match inner {
            Some(inner) => leaves(&inner, &format!("{path}."), found),
            None => drop(found.insert(path)),
        }
    }
}

/// Returns the path of each value of a protojson message, with a copy of the message that lacks the
/// value.
fn without_each(descriptor: &MessageDescriptor, json: &Value) -> Vec<(String, Value)> {
    let mut names = BTreeSet::new();
    leaves(descriptor, "", &mut names);
    names
        .into_iter()
        .filter_map(|name| {
            let mut copy = json.clone();
            let (path, last) = name.rsplit_once('.').unwrap_or(("", &name));
            let mut at = &mut copy;
            for key in path.split('.').filter(|key| !key.is_empty()) {
                at = at.get_mut(key)?;
                if at.is_array() {
                    at = at.get_mut(0)?;
                }
            }
            at.as_object_mut()?.shift_remove(last)?;
            Some((name, copy))
        })
        .collect()
}

/// An adjustment that sets every field to a value other than its default.
fn everything() -> Value {
    let hook = json!([{ "path": "/h", "args": ["h"], "env": ["A=1"], "timeout": { "value": 3 } }]);
    json!({
        "annotations": { "a": "1" },
        "mounts": [{ "destination": "/m", "type": "bind", "source": "/s", "options": ["ro"] }],
        "env": [{ "key": "A", "value": "1" }],
        "hooks": {
            "prestart": hook, "createRuntime": hook, "createContainer": hook,
            "startContainer": hook, "poststart": hook, "poststop": hook,
        },
        "rlimits": [{ "type": "RLIMIT_CORE", "hard": 2, "soft": 1 }],
        "CDIDevices": [{ "name": "v.com/c=d" }],
        "args": ["x"],
        "linux": {
            "devices": [{
                "path": "/dev/x", "type": "b", "major": 1, "minor": 2,
                "fileMode": { "value": 3 }, "uid": { "value": 4 }, "gid": { "value": 5 },
            }],
            "resources": {
                "memory": {
                    "limit": { "value": 1 }, "reservation": { "value": 2 }, "swap": { "value": 3 },
                        "kernel": { "value": 4 },
                    "kernelTcp": { "value": 5 }, "swappiness": { "value": 6 },
                    "disableOomKiller": { "value": true }, "useHierarchy": { "value": true },
                },
                "cpu": {
                    "shares": { "value": 1 }, "quota": { "value": 2 }, "period": { "value": 3 },
                    "realtimeRuntime": { "value": 4 }, "realtimePeriod": { "value": 5 },
                        "cpus": "0", "mems": "1",
                },
                "hugepageLimits": [{ "pageSize": "2MB", "limit": 1 }],
                "blockioClass": { "value": "fast" },
                "rdtClass": { "value": "gold" },
                "unified": { "a": "b" },
                "devices": [{
                    "allow": true, "type": "c", "major": { "value": 1 }, "minor": { "value": 2 },
                        "access": "r",
                }],
                "pids": { "limit": 7 },
            },
            "cgroupsPath": "/c",
            "oomScoreAdj": { "value": 1 },
            "ioPriority": { "class": "IOPRIO_CLASS_BE", "priority": 3 },
            "seccompPolicy": {
                "defaultAction": "SCMP_ACT_ALLOW", "defaultErrno": { "value": 1 },
                    "architectures": ["SCMP_ARCH_X86"],
                "flags": ["SECCOMP_FILTER_FLAG_LOG"], "listenerPath": "/l", "listenerMetadata": "m",
                "syscalls": [{
                    "names": ["read"], "action": "SCMP_ACT_LOG", "errnoRet": { "value": 1 },
                    "args": [{ "index": 1, "value": 2, "valueTwo": 3, "op": "SCMP_CMP_EQ" }],
                }],
            },
            "namespaces": [{ "type": "time", "path": "/t" }],
            "sysctl": { "a": "b" },
            "netDevices": { "e": { "name": "f" } },
            "scheduler": {
                "policy": "SCHED_BATCH", "nice": 1, "priority": 2, "flags": ["SCHED_FLAG_RECLAIM"],
                "runtime": 3, "deadline": 4, "period": 5,
            },
            "rdt": {
                "closId": { "value": "c" }, "schemata": { "value": ["L3:0=f"] },
                    "enableMonitoring": { "value": true },
                "remove": true,
            },
            "memoryPolicy": { "mode": "MPOL_BIND", "nodes": "0", "flags": ["MPOL_F_STATIC_NODES"] },
        },
    })
}

/// Whether the adjustments `base` and `without` have different results; `path` is for messages.
fn has_effect(base: &Value, path: &str, without: &Value) -> bool {
    let host = json!({
        "blockio": { "fast": { "weight": 7 } },
        "rdt": { "gold": { "closID": "gold", "l3CacheSchema": "L3:0=1" } },
        "cdi": [{ "path": "/etc/cdi/v.json", "priority": 0, "content": {
            "cdiVersion": "1.1.0", "kind": "v.com/c", "devices": [{ "name": "d",
                "containerEdits": { "env": ["C=1"] } }],
        } }],
    });
    let spec = json!({ "process": { "cwd": "/" }, "linux": {} });
    let with = apply_on(&host, &spec, base).unwrap_or_else(|e| panic!("{path}: {e}"));
    // An error about a missing required field is an effect, too.
    apply_on(&host, &spec, without).map_or(true, |without| with != without)
}

#[test]
fn each_field_has_an_effect() {
    let mut all = BTreeSet::new();
    leaves(&ContainerAdjustment::descriptor(), "", &mut all);
    // The protocol has more than 80 fields; fewer mean that `leaves` skips some.
    assert!(all.len() > 80, "the descriptor has only {} fields", all.len());
    let with_removal = everything();
    let mut with_class = everything();
    // The removal of RDT hides the effect of the RDT class, so each field is tried with the removal
    // and without it.
    with_class["linux"]["rdt"]["remove"] = json!(false);
    assert_eq!(
        protojson(&message::<ContainerAdjustment>(&with_removal))["linux"]["rdt"]["remove"],
        json!(true)
    );

    let mut effective = BTreeSet::new();
    for base in [with_removal, with_class] {
        for (path, without) in without_each(&ContainerAdjustment::descriptor(), &base) {
            if has_effect(&base, &path, &without) {
                effective.insert(path);
            }
        }
    }
    assert_eq!(
        all.difference(&effective).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "fields without an effect"
    );
}
