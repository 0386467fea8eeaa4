//! Tests of the conversion to the container that plugins see: unusual OCI configs, all fields of
//! the protocol, wrong types, and facts that the OCI config does not have.

#![allow(clippy::unwrap_used, clippy::panic)] // test helpers may panic

mod common;

use common::protojson;
use nri_api::proto::{ContainerState, SecurityProfile};
use nri_spec::{ContainerImage, ContainerInfo, OciConfig, to_container};
use serde_json::{Value, json};

fn check(config: Value, expected: Result<Value, &str>) {
    let config = OciConfig::from_value(config).unwrap();
    let seen = to_container(&config, &ContainerInfo::default());
    match expected {
        Ok(expected) => assert_eq!(protojson(&seen.unwrap()), expected),
        Err(error) => assert_eq!(seen.unwrap_err().to_string(), error),
    }
}

#[test]
fn unusual_oci_configs_are_converted() {
    check(json!({}), Ok(json!({ "linux": {} })));
    check(
        json!({ "process": null, "linux": null, "hooks": null, "mounts": null }),
        Ok(json!({ "linux": {} })),
    );
    check(json!({ "hooks": {} }), Ok(json!({ "hooks": {}, "linux": {} })));
    check(
        json!({ "linux": { "intelRdt": { "closID": "", "enableMonitoring": false },
            "netDevices": { "e": {} } } }),
        Ok(json!({ "linux": { "netDevices": { "e": {} }, "rdt": { "closId": {},
                "enableMonitoring": {} } } })),
    );
    // A policy, a class and a flag that the protocol does not have.
    check(
        json!({ "process": {
            "scheduler": { "policy": "SCHED_EXT", "nice": 1 },
            "ioPriority": { "class": "IOPRIO_CLASS_NEW", "priority": 1 },
        } }),
        Ok(json!({ "linux": {} })),
    );
    check(
        json!({ "process": { "scheduler": { "policy": "SCHED_FIFO", "flags": ["NEW",
            "SCHED_FLAG_RECLAIM"] } } }),
        Ok(json!({ "linux": { "scheduler": { "policy": "SCHED_FIFO",
                "flags": ["SCHED_FLAG_RECLAIM"] } } })),
    );
}

#[test]
fn every_field_of_the_protocol_is_converted() {
    check(
        json!({
            "process": {
                "user": { "uid": 1, "gid": 2, "additionalGids": [3, 4] }, "oomScoreAdj": -5,
                "ioPriority": { "class": "IOPRIO_CLASS_RT", "priority": 3 },
                "scheduler": { "policy": "SCHED_DEADLINE", "nice": -1, "priority": 2, "runtime": 3,
                    "deadline": 4, "period": 5 },
                "rlimits": [{ "type": "RLIMIT_CORE", "hard": 18_446_744_073_709_551_615_u64,
                    "soft": 0 }],
            },
            "linux": {
                "namespaces": [{ "type": "pid" }, { "type": "network", "path": "/n" }],
                "devices": [{ "path": "/dev/x", "type": "c", "major": 1, "minor": 2,
                    "fileMode": 438, "uid": 0, "gid": 5 }],
                "resources": { "devices": [{ "allow": true, "type": "c", "major": 1, "minor": -1,
                    "access": "r" }], "pids": {} },
                "cgroupsPath": "/c", "sysctl": { "a": "b" },
                "intelRdt": { "closID": "c", "schemata": ["L3:0=f"], "enableMonitoring": true },
                "seccomp": { "defaultAction": "A", "defaultErrnoRet": 1, "listenerPath": "/l",
                    "listenerMetadata": "m", "flags": ["F"] },
            },
        }),
        Ok(json!({
            "linux": {
                "cgroupsPath": "/c",
                "devices": [{ "fileMode": { "value": 438 }, "gid": { "value": 5 }, "major": "1",
                    "minor": "2", "path": "/dev/x", "type": "c", "uid": {} }],
                "ioPriority": { "class": "IOPRIO_CLASS_RT", "priority": 3 },
                "namespaces": [{ "type": "pid" }, { "path": "/n", "type": "network" }],
                "oomScoreAdj": { "value": "-5" },
                "rdt": { "closId": { "value": "c" }, "enableMonitoring": { "value": true },
                    "schemata": { "value": ["L3:0=f"] } },
                "resources": {
                    "devices": [{ "access": "r", "allow": true, "major": { "value": "1" },
                        "minor": { "value": "-1" }, "type": "c" }],
                    "pids": {},
                },
                "scheduler": { "deadline": "4", "nice": -1, "period": "5",
                    "policy": "SCHED_DEADLINE", "priority": 2, "runtime": "3" },
                "seccompPolicy": { "defaultAction": "A", "defaultErrno": { "value": 1 },
                    "flags": ["F"], "listenerMetadata": "m", "listenerPath": "/l" },
                "sysctl": { "a": "b" },
            },
            "rlimits": [{ "hard": "18446744073709551615", "type": "RLIMIT_CORE" }],
            "user": { "additionalGids": [3, 4], "gid": 2, "uid": 1 },
        })),
    );
}

#[test]
fn errors_name_the_path_of_a_wrong_type() {
    let linux = |key: &str, value: Value| json!({ "linux": { key: value } });
    let process = |key: &str, value: Value| json!({ "process": { key: value } });
    for (config, error) in [
        (json!({ "process": 5 }), "process is the number 5, not an object"),
        (
            json!({ "annotations": { "a b": {} } }),
            r#"annotations["a b"] is an object, not a string"#,
        ),
        (
            json!({ "mounts": [{}, { "options": "ro" }] }),
            "mounts[1].options is a string, not an array",
        ),
        (
            json!({ "hooks": { "prestart": [{ "timeout": 1.5 }] } }),
            "hooks.prestart[0].timeout is the number 1.5, not a 64-bit integer",
        ),
        (process("args", json!([1])), "process.args[0] is the number 1, not a string"),
        (process("env", json!({})), "process.env is an object, not an array"),
        (
            process("user", json!({ "uid": -1 })),
            "process.user.uid is the number -1, not an unsigned 32-bit integer",
        ),
        (
            process("oomScoreAdj", json!(true)),
            "process.oomScoreAdj is a boolean, not a 64-bit integer",
        ),
        (
            process("ioPriority", json!({ "class": 1 })),
            "process.ioPriority.class is the number 1, not a string",
        ),
        (
            process("scheduler", json!({ "nice": 4_000_000_000_u32 })),
            "process.scheduler.nice is the number 4000000000, not a 32-bit integer",
        ),
        (
            process("rlimits", json!([{ "hard": "x" }])),
            "process.rlimits[0].hard is a string, not an unsigned 64-bit integer",
        ),
        (linux("namespaces", json!([[]])), "linux.namespaces[0] is an array, not an object"),
        (
            linux("devices", json!([{ "uid": {} }])),
            "linux.devices[0].uid is an object, not an unsigned 32-bit integer",
        ),
        (
            linux("resources", json!({ "cpu": { "cpus": 0 } })),
            "linux.resources.cpu.cpus is the number 0, not a string",
        ),
        (
            linux("seccomp", json!({ "syscalls": [{ "args": [{ "index": "0" }] }] })),
            "linux.seccomp.syscalls[0].args[0].index is a string, not an unsigned 32-bit integer",
        ),
        (
            linux("intelRdt", json!({ "schemata": "x" })),
            "linux.intelRdt.schemata is a string, not an array",
        ),
    ] {
        check(config, Err(error));
    }
}

#[test]
fn facts_that_the_oci_config_lacks_are_added() {
    let config =
        OciConfig::from_value(json!({ "annotations": { "a": "config", "b": "config" } })).unwrap();
    let mut profile = SecurityProfile::new();
    profile.localhost_ref = "p".into();
    let info = ContainerInfo {
        id: "id".into(),
        pod_sandbox_id: "pod".into(),
        name: "n".into(),
        labels: [("l".to_owned(), "m".to_owned())].into(),
        annotations: [("a".to_owned(), "engine".to_owned())].into(),
        image: Some(ContainerImage {
            name: "i".into(),
            digest: "d".into(),
            config_digest: "c".into(),
        }),
        state: ContainerState::CONTAINER_STOPPED,
        pid: 1,
        created_at: 2,
        started_at: 3,
        finished_at: 4,
        exit_code: -5,
        status_reason: "r".into(),
        status_message: "s".into(),
        cdi_devices: vec!["v/c=d".into()],
        seccomp_profile: Some(profile),
        blockio_class: Some("fast".into()),
        rdt_class: Some(String::new()),
    };
    let expected = json!({
        "CDIDevices": [{ "name": "v/c=d" }],
        "annotations": { "a": "engine", "b": "config" },
        "createdAt": "2", "exitCode": -5, "finishedAt": "4", "id": "id",
        "image": { "configDigest": "c", "digest": "d", "name": "i" },
        "labels": { "l": "m" },
        "linux": {
            "resources": { "blockioClass": { "value": "fast" }, "rdtClass": {} },
            "seccompProfile": { "localhostRef": "p" },
        },
        "name": "n", "pid": 1, "podSandboxId": "pod", "startedAt": "3",
            "state": "CONTAINER_STOPPED",
        "statusMessage": "s", "statusReason": "r",
    });
    assert_eq!(protojson(&to_container(&config, &info).unwrap()), expected);
}
