//! Applies adjustments to OCI configs, where both have lists and maps with as many entries as fit
//! into a message. With quadratic work a test would take hours.

#![allow(clippy::unwrap_used, clippy::panic)] // test helpers may panic

use nri_api::MAX_MESSAGE;
use nri_api::proto::{
    CDIDevice, ContainerAdjustment, FieldOwners, Hook, HugepageLimit, KeyValue, LinuxDevice,
    LinuxDeviceCgroup, LinuxResources, Mount, POSIXRlimit,
};
use nri_spec::capability::{self, HostCapabilities, RuntimeVersion};
use nri_spec::cdi::{self, CdiDeviceNode, CdiEdits, CdiError};
use nri_spec::{
    ApplyContext, CdiResolver, ContainerInfo, OciConfig, apply, changed, merge_resources, overlay,
    to_container,
};
use protobuf::MessageFull;
use protobuf::reflect::{MessageDescriptor, RuntimeFieldType, RuntimeType};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Largest number of entries: each has a name of twenty bytes and a few bytes of encoding.
const MAX_ENTRIES: usize = MAX_MESSAGE / 32;

/// Effect of an adjustment on existing entries of a list.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Entries are replaced, or removed by a marked key.
    Marked,
    /// Entries are replaced.
    Keyed,
    /// Entries are kept, and new entries are appended.
    Appended,
}

/// A list or map of the adjustment.
struct List {
    field: &'static str,
    kind: Kind,
    /// JSON pointer of the list in the OCI config.
    place: &'static str,
    /// Adds an entry with this key.
    add: fn(&mut ContainerAdjustment, String),
}

macro_rules! lists {
    ($(
        $test:ident: $field:literal $kind:ident $place:literal,
        |$adjust:ident, $key:ident| $add:expr;
    )*) => {
        const LISTS: &[List] = &[$(
            List {
                field: $field,
                kind: Kind::$kind,
                place: $place,
                add: |$adjust, $key| { $add; },
            },
        )*];
        $(
            #[test]
            fn $test() {
                check(LISTS.iter().find(|list| list.field == $field).unwrap());
            }
        )*
    };
}

lists! {
    many_annotations_are_applied:
        "annotations" Marked "/annotations", |a, key|
        a.annotations.insert(key, String::new());
    many_mounts_are_applied: "mounts" Marked "/mounts", |a, destination| {
        let options = vec!["rslave".to_owned(), "ro".to_owned()];
        a.mounts.push(Mount { destination, options, ..Default::default() })
    };
    many_variables_are_applied:
        "env" Marked "/process/env", |a, key|
        a.env.push(KeyValue { key, ..Default::default() });
    many_prestart_hooks_are_applied: "hooks.prestart" Appended "/hooks/prestart", |a, path|
        a.hooks.mut_or_insert_default().prestart.push(Hook { path, ..Default::default() });
    many_create_runtime_hooks_are_applied:
        "hooks.create_runtime" Appended "/hooks/createRuntime", |a, path|
        a.hooks.mut_or_insert_default().create_runtime.push(Hook { path, ..Default::default() });
    many_create_container_hooks_are_applied:
        "hooks.create_container" Appended "/hooks/createContainer", |a, path|
        a.hooks.mut_or_insert_default().create_container.push(Hook { path, ..Default::default() });
    many_start_container_hooks_are_applied:
        "hooks.start_container" Appended "/hooks/startContainer", |a, path|
        a.hooks.mut_or_insert_default().start_container.push(Hook { path, ..Default::default() });
    many_poststart_hooks_are_applied: "hooks.poststart" Appended "/hooks/poststart", |a, path|
        a.hooks.mut_or_insert_default().poststart.push(Hook { path, ..Default::default() });
    many_poststop_hooks_are_applied: "hooks.poststop" Appended "/hooks/poststop", |a, path|
        a.hooks.mut_or_insert_default().poststop.push(Hook { path, ..Default::default() });
    many_devices_are_applied: "linux.devices" Marked "/linux/devices", |a, path|
        a.linux.mut_or_insert_default().devices.push(LinuxDevice { path, ..Default::default() });
    many_hugepage_limits_are_applied:
        "linux.resources.hugepage_limits" Keyed "/linux/resources/hugepageLimits", |a, page_size| {
            let limit = HugepageLimit { page_size, limit: 1, ..Default::default() };
            resources(a).hugepage_limits.push(limit)
        };
    many_unified_files_are_applied:
        "linux.resources.unified" Keyed "/linux/resources/unified", |a, key|
        resources(a).unified.insert(key, String::new());
    many_device_rules_are_applied:
        "linux.resources.devices" Appended "/linux/resources/devices", |a, type_|
        resources(a).devices.push(LinuxDeviceCgroup { type_, ..Default::default() });
    many_sysctls_are_applied: "linux.sysctl" Marked "/linux/sysctl", |a, key|
        a.linux.mut_or_insert_default().sysctl.insert(key, String::new());
    many_net_devices_are_applied: "linux.net_devices" Marked "/linux/netDevices", |a, key|
        a.linux.mut_or_insert_default().net_devices.insert(key, Default::default());
    many_rlimits_are_applied: "rlimits" Keyed "/process/rlimits", |a, type_|
        a.rlimits.push(POSIXRlimit { type_, ..Default::default() });
}

/// Lists without a test: the beginning of the path, and the reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("CDI_devices", "has a test of its own"),
    ("hooks.prestart.", "copied as a part of a hook"),
    ("hooks.create_runtime.", "copied as a part of a hook"),
    ("hooks.create_container.", "copied as a part of a hook"),
    ("hooks.start_container.", "copied as a part of a hook"),
    ("hooks.poststart.", "copied as a part of a hook"),
    ("hooks.poststop.", "copied as a part of a hook"),
    ("mounts.options", "copied as a part of a mount"),
    ("linux.namespaces", "at most one for each of eight types"),
    ("linux.seccomp_policy", "copied as a whole"),
    ("linux.scheduler.flags", "copied as a part of the scheduler"),
    ("linux.rdt.schemata.value", "copied as a whole"),
    ("linux.memory_policy.flags", "copied as a part of the policy"),
    ("args", "copied as a whole"),
];

fn resources(adjust: &mut ContainerAdjustment) -> &mut LinuxResources {
    adjust.linux.mut_or_insert_default().resources.mut_or_insert_default()
}

/// Returns key `i`, a name that every field accepts.
fn key(i: usize) -> String {
    format!("/example.org/{i:07}")
}

/// An adjustment that adds an entry for each key.
fn adjust(list: &List, keys: impl Iterator<Item = String>) -> ContainerAdjustment {
    let mut adjust = ContainerAdjustment::new();
    keys.for_each(|key| (list.add)(&mut adjust, key));
    adjust
}

/// Applies an adjustment, and converts and checks the result.
fn apply_to(config: &mut OciConfig, adjust: &ContainerAdjustment, ctx: &ApplyContext<'_>) {
    let before = config.clone();
    assert!(apply(config, adjust, ctx).unwrap().changed);
    to_container(config, &ContainerInfo::default()).unwrap();
    // The check passes for an unknown runtime, but collects all changed fields first.
    capability::check(
        &before,
        config,
        &FieldOwners::default(),
        &RuntimeVersion { kind: None, version: None },
        &host(),
    )
    .unwrap();
}

/// A host with all controllers, and a kernel newer than all real ones.
fn host() -> HostCapabilities {
    HostCapabilities {
        cgroup_v2: true,
        controllers: words("cpu cpuset io memory pids hugetlb"),
        files: BTreeSet::new(),
        resctrl: true,
        kernel: (9, 9),
        ..HostCapabilities::default()
    }
}

fn words(text: &str) -> BTreeSet<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// The number of entries of a list or map.
fn entries(config: &OciConfig, place: &str) -> usize {
    match config.value().pointer(place) {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Object(fields)) => fields.len(),
        _ => 0,
    }
}

/// Fills a list of the OCI config. Then applies an adjustment with as many entries: half of them
/// have keys of existing entries, and the others remove entries or have new keys.
fn check(list: &List) {
    let ctx = ApplyContext {
        propagation: &|_| Some(nri_spec::Propagation::Shared),
        ..Default::default()
    };
    let mut config = OciConfig::from_value(json!({})).unwrap();
    apply(&mut config, &adjust(list, (0..MAX_ENTRIES).map(key)), &ctx).unwrap();
    assert_eq!(entries(&config, list.place), MAX_ENTRIES);
    let second_key = |i: usize| match (i % 2, list.kind) {
        (0, _) => key(i),
        (_, Kind::Marked) => format!("-{}", key(i)),
        _ => format!("new-{}", key(i)),
    };
    let second = adjust(list, (0..MAX_ENTRIES).map(second_key));
    apply_to(&mut config, &second, &ctx);
    let expected = match list.kind {
        // Half of the entries were replaced, the other half removed.
        Kind::Marked => MAX_ENTRIES / 2,
        // Half of the second entries were new.
        Kind::Keyed => MAX_ENTRIES + MAX_ENTRIES / 2,
        Kind::Appended => MAX_ENTRIES * 2,
    };
    assert_eq!(entries(&config, list.place), expected);
}

/// A resolver that gives each device one entry in each list whose entries replace existing entries
/// with the same key.
struct OneEditPerList;

impl CdiResolver for OneEditPerList {
    fn resolve(&self, names: &[&str]) -> Result<Vec<CdiEdits>, CdiError> {
        let edits = |(i, name): (usize, &&str)| CdiEdits {
            env: vec![format!("{name}=cdi")],
            device_nodes: vec![CdiDeviceNode {
                path: (*name).into(),
                kind: "p".into(),
                ..Default::default()
            }],
            mounts: vec![cdi::CdiMount {
                container_path: (*name).into(),
                host_path: "/".into(),
                ..Default::default()
            }],
            additional_gids: vec![u32::try_from(i).unwrap()],
            ..Default::default()
        };
        Ok(names.iter().enumerate().map(edits).collect())
    }
}

#[test]
fn many_cdi_devices_are_injected() {
    /// A quarter of the other tests' entries, because each device adds entries to four lists.
    const MAX_ENTRIES: usize = MAX_MESSAGE / 128;
    /// Number of different devices: half of the second devices are new.
    const ALL: usize = MAX_ENTRIES + MAX_ENTRIES / 2;
    let ctx = ApplyContext { cdi: &OneEditPerList, ..Default::default() };
    let mut config = OciConfig::from_value(json!({})).unwrap();
    for numbers in [0..MAX_ENTRIES, MAX_ENTRIES / 2..ALL] {
        let device = |i| CDIDevice { name: key(i), ..Default::default() };
        let adjust = ContainerAdjustment {
            CDI_devices: numbers.map(device).collect(),
            ..Default::default()
        };
        apply_to(&mut config, &adjust, &ctx);
    }
    for (place, expected) in [
        ("/process/env", ALL),
        ("/linux/devices", ALL),
        ("/mounts", ALL),
        // Both adjustments add the same groups; group 0 is skipped.
        ("/process/user/additionalGids", MAX_ENTRIES - 1),
    ] {
        assert_eq!(entries(&config, place), expected, "{place}");
    }
}

/// Half of the limits have no page size. Only engines send such limits.
#[test]
fn many_hugepage_limits_of_an_update_are_merged() {
    /// Each limit is a JSON object, longer than the entries of the other tests.
    const MAX_ENTRIES: usize = MAX_MESSAGE / 64;
    let limits = |from: usize| -> Vec<Value> {
        (from..from + MAX_ENTRIES)
            .map(|i| {
                if i % 2 == 0 {
                    json!({ "pageSize": key(i), "limit": 1 })
                } else {
                    json!({ "limit": i })
                }
            })
            .collect()
    };
    let (old, new) = (
        json!({ "hugepageLimits": limits(0) }),
        json!({ "hugepageLimits": limits(MAX_ENTRIES / 2) }),
    );
    let count = |value: &Value| value["hugepageLimits"].as_array().unwrap().len();
    // Half of the new limits are equal to old limits.
    assert_eq!(count(&changed(&old, &new)), MAX_ENTRIES / 2);
    let mut both = old.clone();
    overlay(&mut both, &new);
    assert_eq!(count(&both), MAX_ENTRIES + MAX_ENTRIES / 2);
    let limit = |i| HugepageLimit { page_size: key(i), limit: 1, ..Default::default() };
    let requested = LinuxResources {
        hugepage_limits: (0..MAX_ENTRIES).map(limit).collect(),
        ..Default::default()
    };
    // Half of the old limits have page sizes that are also requested.
    let mut merged = old.clone();
    merge_resources(&mut merged, &requested);
    assert_eq!(count(&merged), MAX_ENTRIES + MAX_ENTRIES / 2);
}

#[test]
fn every_list_has_a_test_or_an_exception() {
    fn walk(message: &MessageDescriptor, path: &str, found: &mut Vec<String>) {
        for field in message.fields() {
            let path = format!("{path}{}", field.name());
            let kind = field.runtime_field_type();
            if !matches!(kind, RuntimeFieldType::Singular(_)) {
                found.push(path.clone());
            }
            if let RuntimeFieldType::Singular(RuntimeType::Message(inner))
            | RuntimeFieldType::Repeated(RuntimeType::Message(inner)) = kind
            {
                walk(&inner, &format!("{path}."), found);
            }
        }
    }
    let mut all = Vec::new();
    walk(&ContainerAdjustment::descriptor(), "", &mut all);
    for list in &all {
        let tested = LISTS.iter().filter(|l| l.field == *list).count();
        let excepted =
            EXCEPTIONS.iter().filter(|(beginning, _)| list.starts_with(beginning)).count();
        assert_eq!(tested + excepted, 1, "{list}");
    }
    assert!(LISTS.iter().all(|list| all.iter().any(|path| path == list.field)));
}
