//! Checks that no input causes a panic: real OCI configs with junk at any position, and plain junk.

#![allow(clippy::unwrap_used, clippy::panic)] // test helpers may panic

mod common;

use common::{files, message, read_json};
use nri_api::proto::ContainerAdjustment;
use nri_spec::cdi::{CdiRegistry, CdiSpecFile};
use nri_spec::{
    ApplyContext, ContainerInfo, HostDevice, HostDeviceKind, OciConfig, Propagation, apply,
    changed, idle_entry_to_field, idle_field_to_entry, merge_resources, overlay, resources_to_nri,
    to_container,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::LazyLock;

static SAMPLES: LazyLock<Vec<Value>> =
    LazyLock::new(|| files("samples", ".config.json").iter().map(|p| read_json(p)).collect());

static CASES: LazyLock<Vec<Value>> =
    LazyLock::new(|| files("cases", ".json").iter().map(|p| read_json(p)).collect());

/// Any JSON, with numbers beyond every range and with names of real fields.
fn junk() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop_oneof![
            Just("1e999999999999999999999"),
            Just("-0"),
            Just("1.5"),
            Just("99999999999999999999999")
        ]
        .prop_map(|n| serde_json::from_str(n).unwrap()),
        ".{0,8}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        "[a-zA-Z.-]{0,6}",
        Just("path".to_owned()),
        Just("type".to_owned()),
        Just("destination".to_owned()),
        Just("limit".to_owned()),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Replaces one value with junk. The first of `steps` selects a child of `value`, each further one
/// a child of the value selected before; the last selected value is replaced. A value without
/// children ends the selection.
fn spoil(value: &mut Value, steps: &[usize], junk: Value) {
    let Some((step, rest)) = steps.split_first() else {
        *value = junk;
        return;
    };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let index = step % fields.len();
            spoil(fields.values_mut().nth(index).unwrap(), rest, junk);
        }
        Value::Array(items) if !items.is_empty() => {
            let index = step % items.len();
            spoil(&mut items[index], rest, junk);
        }
        other => *other = junk,
    }
}

/// Calls all functions of the crate with an OCI config, an adjustment and a CDI specification. The
/// CDI specification also serves as the definition of every block I/O and RDT class, and as the
/// resources that `merge_resources` and `overlay` change.
fn run(spec: &Value, adjust: &ContainerAdjustment, cdi: &Value) {
    let Ok(mut config) = OciConfig::parse(spec.to_string().as_bytes()) else { return };
    let _ = to_container(&config, &ContainerInfo::default());
    let file =
        |content: &Value| CdiSpecFile { path: "/v".into(), priority: 0, content: content.clone() };
    let registry = CdiRegistry::new([file(cdi)]);
    let ctx = ApplyContext {
        blockio: &|_| Some(cdi.clone()),
        rdt: &|_| Some(cdi.clone()),
        cdi: &registry,
        device: &|_| {
            Some(HostDevice { kind: HostDeviceKind::Char, major: 1, minor: 2, mode: 0o600 })
        },
        propagation: &|_| Some(Propagation::Shared),
        ..Default::default()
    };
    let before = config.clone();
    match apply(&mut config, adjust, &ctx) {
        Err(_) => assert_eq!(before, config),
        Ok(applied) => assert_eq!(applied.changed, before != config),
    }
    drop((config.args(), config.env(), config.cgroups_path()));
    let empty = json!({});
    let resources = config.resources().unwrap_or(&empty);
    let nri = resources_to_nri(resources).unwrap_or_default();
    let mut merged = cdi.clone();
    merge_resources(&mut merged, &nri);
    overlay(&mut merged, resources);
    let mut idle = resources.clone();
    idle_entry_to_field(&mut idle);
    idle_field_to_entry(&mut idle, resources);
    let difference = changed(&merged, resources);
    assert_eq!(difference, json!({}), "`overlay` did not set these fields");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn oci_configs_with_junk_do_not_panic(
        sample in any::<prop::sample::Index>(), case in any::<prop::sample::Index>(),
        steps in prop::collection::vec(any::<usize>(), 0..6), junk in junk(), cdi in junk(),
    ) {
        let case = case.get(&CASES);
        let adjust = message(&case["adjust"]);
        for base in [sample.get(&SAMPLES), &case["spec"]] {
            let mut spec = base.clone();
            spoil(&mut spec, &steps, junk.clone());
            run(&spec, &adjust, &cdi);
        }
    }

    #[test]
    fn cdi_specifications_with_junk_do_not_panic(
        steps in prop::collection::vec(any::<usize>(), 0..8), junk in junk(),
    ) {
        let path = files("cases/cdi", "all-edits.json").remove(0);
        let case = read_json(&path);
        let mut cdi = case["host"]["cdi"][0]["content"].clone();
        spoil(&mut cdi, &steps, junk);
        run(&case["spec"], &message(&case["adjust"]), &cdi);
    }

    #[test]
    fn any_bytes_do_not_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..64),
        text in "[\\[\\]{}:,\"a0 .eE+-]{0,64}",
    ) {
        let _ = OciConfig::parse(&bytes);
        let _ = OciConfig::parse(text.as_bytes());
    }
}
