//! Tests of resources objects of `update`: differences, overlays, conversion to messages and back.

#![allow(clippy::unwrap_used, clippy::panic)] // test helpers may panic

mod common;

use common::{files, message, protojson, read_json};
use nri_api::proto::LinuxResources;
use nri_spec::{
    ApplyContext, OciConfig, changed, merge_blockio_class, merge_resources, overlay,
    resources_to_nri, same_value,
};
use serde_json::{Value, json};

#[test]
fn changed_returns_the_fields_that_differ() {
    let old = json!({
        "memory": { "limit": 100, "swap": 200 }, "cpu": { "shares": 512, "cpus": "0" },
        "hugepageLimits": [{ "pageSize": "2MB", "limit": 1 }, { "pageSize": "1GB", "limit": 2 }],
        "unified": { "a": "1" }, "devices": [{ "allow": false, "access": "rwm" }],
            "pids": { "limit": 5 },
    });
    for (new, expected) in [
        (old.clone(), json!({})),
        (json!({}), json!({})),
        (json!(null), json!({})),
        (json!("text"), json!({})),
        (json!({ "memory": { "limit": 100.0 } }), json!({})),
        (json!({ "memory": { "limit": 101, "swap": 200 } }), json!({ "memory": { "limit": 101 } })),
        (json!({ "memory": { "limit": 0 } }), json!({ "memory": { "limit": 0 } })),
        (json!({ "memory": null, "cpu": { "shares": null } }), json!({})),
        (json!({ "cpu": {}, "blockIO": {}, "rdma": { "x": {} } }), json!({})),
        (
            json!({ "blockIO": { "weight": 5, "leafWeight": null } }),
            json!({ "blockIO": { "weight": 5 } }),
        ),
        (
            json!({ "hugepageLimits": [{ "limit": 1, "pageSize": "2MB" }, { "pageSize": "1GB",
                "limit": 3 }] }),
            json!({ "hugepageLimits": [{ "pageSize": "1GB", "limit": 3 }] }),
        ),
        // Nulls are skipped, and the last limit of a page size counts.
        (
            json!({ "hugepageLimits": [null, { "pageSize": "2MB", "limit": 9 },
                { "pageSize": "2MB", "limit": 1 }] }),
            json!({}),
        ),
        (json!({ "unified": { "a": "1", "b": "2" } }), json!({ "unified": { "b": "2" } })),
        (json!({ "devices": [{ "allow": true }] }), json!({ "devices": [{ "allow": true }] })),
        (json!({ "pids": 7 }), json!({ "pids": 7 })),
    ] {
        assert_eq!(changed(&old, &new).to_string(), expected.to_string(), "{new}");
    }
}

#[test]
fn an_overlay_sets_fields_and_drops_nulls() {
    for (base, top, expected) in [
        (
            r#"{"cpu":{"shares":1,"quota":2}}"#,
            r#"{"cpu":{"quota":3},"pids":{"limit":4}}"#,
            r#"{"cpu":{"shares":1,"quota":3},"pids":{"limit":4}}"#,
        ),
        (
            r#"{"memory":{"limit":1e2}}"#,
            r#"{"memory":{"limit":100}}"#,
            r#"{"memory":{"limit":1e+2}}"#,
        ),
        (
            r#"{"memory":null,"cpu":{"shares":null}}"#,
            r#"{"pids":null,"blockIO":{"weight":null}}"#,
            r#"{"cpu":{},"blockIO":{}}"#,
        ),
        (r#"{"devices":[1,2]}"#, r#"{"devices":[3]}"#, r#"{"devices":[3]}"#),
        (
            r#"{"hugepageLimits":[{"pageSize":"2MB","limit":1},{"pageSize":"1GB","limit":2}]}"#,
            r#"{"hugepageLimits":[{"pageSize":"1GB","limit":3},{"pageSize":"64KB","limit":4}]}"#,
            r#"{"hugepageLimits":[{"pageSize":"2MB","limit":1},{"pageSize":"1GB","limit":3},{"pageSize":"64KB","limit":4}]}"#,
        ),
        (
            r#"{"hugepageLimits":[null]}"#,
            r#"{"hugepageLimits":[null,{"pageSize":"2MB","limit":1},{"pageSize":"2MB","limit":2}]}"#,
            r#"{"hugepageLimits":[{"pageSize":"2MB","limit":2}]}"#,
        ),
        (r#"{"cpu":5}"#, r#"{"cpu":{"shares":1}}"#, r#"{"cpu":{"shares":1}}"#),
        ("null", r#"{"cpu":{"shares":1}}"#, r#"{"cpu":{"shares":1}}"#),
        (r#"{"a":1}"#, "7", r#"{"a":1}"#),
    ] {
        let mut value: Value = serde_json::from_str(base).unwrap();
        overlay(&mut value, &serde_json::from_str(top).unwrap());
        assert_eq!(value.to_string(), expected, "{base} + {top}");
    }
}

#[test]
fn a_message_is_merged_into_a_resources_object() {
    for (base, resources, expected) in [
        (json!({}), json!({}), json!({})),
        (
            json!({ "memory": { "swap": 5 } }),
            json!({ "memory": { "limit": { "value": 0 } }, "cpu": { "cpus": "0" } }),
            json!({ "memory": { "swap": 5, "limit": 0 }, "cpu": { "cpus": "0" } }),
        ),
        (json!({ "pids": {} }), json!({ "pids": {} }), json!({ "pids": {} })),
        (
            json!({ "pids": { "limit": 5 } }),
            json!({ "pids": {} }),
            json!({ "pids": { "limit": 0 } }),
        ),
        (json!({}), json!({ "pids": { "limit": -3 } }), json!({ "pids": { "limit": -1 } })),
        (
            json!({ "devices": [{ "allow": false, "type": "", "access": "rwm" }] }),
            json!({ "devices": [{ "access": "rwm" }] }),
            json!({ "devices": [{ "allow": false, "type": "", "access": "rwm" }] }),
        ),
        (
            json!({ "devices": [{ "allow": false }] }),
            json!({ "devices": [{ "access": "rwm" }, { "allow": true, "type": "c",
                "major": { "value": 1 } }] }),
            json!({ "devices": [{ "allow": false, "access": "rwm" }, { "allow": true, "type": "c",
                "major": 1 }] }),
        ),
        (
            json!({ "unified": { "z": "1" }, "hugepageLimits": [{ "pageSize": "2MB",
                "limit": 1 }] }),
            json!({ "unified": { "b": "2", "a": "3" }, "hugepageLimits": [{ "pageSize": "2MB",
                "limit": 9 }] }),
            json!({ "unified": { "z": "1", "a": "3", "b": "2" },
                "hugepageLimits": [{ "pageSize": "2MB", "limit": 9 }] }),
        ),
        // A limit without a page size is not added again with an empty page size.
        (
            json!({ "hugepageLimits": [{ "limit": 1 }] }),
            json!({ "hugepageLimits": [{ "limit": 1 }] }),
            json!({ "hugepageLimits": [{ "limit": 1 }] }),
        ),
        (
            json!({ "hugepageLimits": [{ "pageSize": "2MB", "limit": 1 }, { "pageSize": "2MB",
                "limit": 2 }] }),
            json!({ "hugepageLimits": [{ "pageSize": "2MB", "limit": 2 }, { "pageSize": "2MB",
                "limit": 1 }] }),
            json!({ "hugepageLimits": [{ "pageSize": "2MB", "limit": 1 }] }),
        ),
    ] {
        let mut merged = base.clone();
        merge_resources(&mut merged, &message(&resources));
        assert_eq!(merged.to_string(), expected.to_string(), "{base} + {resources}");
    }
}

#[test]
fn a_blockio_class_sets_or_removes_block_io() {
    let ctx = ApplyContext {
        blockio: &|name| (name == "fast").then(|| json!({ "weight": 7 })),
        ..Default::default()
    };
    let mut resources = json!({ "pids": { "limit": 1 } });
    merge_blockio_class(&mut resources, "fast", &ctx).unwrap();
    assert_eq!(resources, json!({ "pids": { "limit": 1 }, "blockIO": { "weight": 7 } }));
    assert!(merge_blockio_class(&mut resources, "slow", &ctx).is_err());
    merge_blockio_class(&mut resources, "", &ctx).unwrap();
    assert_eq!(resources, json!({ "pids": { "limit": 1 } }));
}

#[test]
fn conversion_to_a_message_and_back_changes_nothing() {
    let mut samples = 0;
    for path in files("samples", ".config.json") {
        let config = OciConfig::from_value(read_json(&path)).unwrap();
        let Some(resources) = config.resources() else { continue };
        let nri = resources_to_nri(resources).unwrap();
        let mut again = resources.clone();
        merge_resources(&mut again, &nri);
        assert_eq!(again.to_string(), resources.to_string(), "{} onto itself", path.display());
        let mut made = json!({});
        merge_resources(&mut made, &nri);
        assert_eq!(resources_to_nri(&made).unwrap(), nri, "{}", path.display());
        samples += 1;
    }
    assert!(samples > 3, "only {samples} samples have resources, most should");
}

#[test]
fn resources_are_converted_and_wrong_types_are_refused() {
    let all = json!({
        "memory": {
            "limit": "1", "reservation": "2", "swap": "-1", "kernel": "4", "kernelTcp": "5",
                "swappiness": "60",
            "disableOomKiller": false, "useHierarchy": true,
        },
    });
    let oci = json!({
        "memory": {
            "limit": 1, "reservation": 2, "swap": -1, "kernel": 4, "kernelTCP": 5, "swappiness": 60,
            "disableOOMKiller": false, "useHierarchy": true, "checkBeforeUpdate": true,
        },
        "network": { "classID": 5 },
    });
    let read = protojson(&resources_to_nri(&oci).unwrap());
    for (name, value) in all["memory"].as_object().unwrap() {
        let found = read["memory"][name]
            .as_object()
            .and_then(|m| m.get("value"))
            .cloned()
            .unwrap_or(json!(false)); // protojson omits a default
        assert!(same_value(&found, value), "{name}: {found}");
    }
    assert_eq!(
        resources_to_nri(&json!({ "memory": null, "cpu": { "shares": null } })).unwrap(),
        message::<LinuxResources>(&json!({ "cpu": {} }))
    );
    for (wrong, error) in [
        (r#"5"#, "top-level value is the number 5, not an object"),
        (r#"{"memory":[]}"#, "memory is an array, not an object"),
        (r#"{"memory":{"limit":"5"}}"#, "memory.limit is a string, not a 64-bit integer"),
        (r#"{"memory":{"limit":1.5}}"#, "memory.limit is the number 1.5, not a 64-bit integer"),
        (r#"{"cpu":{"shares":-1}}"#, "cpu.shares is the number -1, not an unsigned 64-bit integer"),
        (
            r#"{"pids":{"limit":9223372036854775808}}"#,
            "pids.limit is the number 9223372036854775808, not a 64-bit integer",
        ),
        (
            r#"{"hugepageLimits":[{"pageSize":"2MB"},{"limit":{}}]}"#,
            "hugepageLimits[1].limit is an object, not an unsigned 64-bit integer",
        ),
        (
            r#"{"unified":{"memory.high":5}}"#,
            r#"unified["memory.high"] is the number 5, not a string"#,
        ),
        (r#"{"devices":[null]}"#, "devices[0] is null, not an object"),
    ] {
        let value: Value = serde_json::from_str(wrong).unwrap();
        assert_eq!(resources_to_nri(&value).unwrap_err().to_string(), error);
    }
}
