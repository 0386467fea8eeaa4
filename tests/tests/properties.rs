//! Properties of the merge and the adjustment of OCI configs together. Adjustments are random, made
//! from the descriptors of the protocol. OCI configs are real ones with random members removed and
//! random unknown members added. Properties of the merge alone are tested in `nri-merge`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which clippy takes for ordinary code"
)]

#[allow(dead_code, reason = "the field table's tests use the rest")]
#[path = "fields/pointers.rs"]
mod pointers;
#[allow(dead_code, reason = "the field table's tests use the rest")]
#[path = "fields/protocol.rs"]
mod protocol;
#[path = "../../src/spec/tests/common/mod.rs"]
mod spec_tests;
#[allow(dead_code, reason = "the field table's tests use the rest")]
#[path = "fields/table.rs"]
mod table;

use nri_api::proto::{
    CDIDevice, ContainerAdjustment, CreateContainerResponse, LinuxContainerAdjustment,
    LinuxResources,
};
use nri_api::{FieldKind, PluginId, field_kind};
use nri_merge::{CreateMerge, CreateOutcome};
use nri_spec::{ApplyContext, ContainerInfo, OciConfig, apply, to_container};
use pointers::{allowed, by_name, outside};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use protocol::{of_number, only};
use serde_json::{Map, Value, json};
use spec_tests::{apply_on, files, protojson};
use std::collections::BTreeSet;
use table::{Claim, Key, ROWS, Row};

/// Request of one plugin that sets or removes one field.
#[derive(Debug, Clone, Copy)]
struct Atom {
    row: &'static Row,
    /// Index into the result of [`keys`], modulo the number of keys.
    key: u8,
    /// Number from which the value is made.
    number: u8,
    /// Whether the entry is removed rather than set.
    remove: bool,
}

fn atom() -> impl Strategy<Value = Atom> {
    let keyed: Vec<&Row> = ROWS.iter().filter(|row| !matches!(row.key, Key::Whole)).collect();
    // Fields with keys are few and error-prone, so half of the choices are only among them.
    let row = prop_oneof![select(ROWS.iter().collect::<Vec<_>>()), select(keyed)];
    (row, any::<u8>(), 1..9u8, any::<bool>()).prop_map(|(row, key, number, remove)| {
        let remove = remove && matches!(row.key, Key::Map | Key::By(_));
        Atom { row, key, number, remove }
    })
}

/// Returns the keys that an atom of this row may have: keys of the OCI config, and new keys.
fn keys(config: &Value, row: &Row) -> Vec<String> {
    let new: &[&str] = match row.path.as_str() {
        "mounts" | "linux.devices" => &["/a", "/a/b", "/c~d"],
        "linux.namespaces" => &["time", "user", "cgroup"],
        "linux.resources.hugepage_limits" => &["2MB", "1GB", "64KB"],
        "rlimits" => &["RLIMIT_CORE", "RLIMIT_NOFILE", "RLIMIT_RTTIME"],
        "CDI_devices" => return vec!["v.com/c=a".to_owned(), "v.com/c=b".to_owned()],
        _ => &["a", "b/c", "d"],
    };
    let entries =
        row.pointers[0].strip_suffix("/*").and_then(|list| by_name(config).pointer(list).cloned());
    let known = entries.iter().filter_map(Value::as_object).flat_map(Map::keys);
    let known = known.filter(|key| !key.is_empty() && !key.starts_with('-'));
    known.cloned().chain(new.iter().map(|key| (*key).to_owned())).collect()
}

impl Atom {
    fn name(&self, config: &Value) -> String {
        let keys = keys(config, self.row);
        if matches!(self.row.key, Key::Whole) {
            String::new()
        } else {
            keys[usize::from(self.key) % keys.len()].clone()
        }
    }

    fn adjust(&self, config: &Value) -> ContainerAdjustment {
        let name = format!("{}{}", if self.remove { "-" } else { "" }, self.name(config));
        let key = match self.row.key {
            Key::Whole => String::new(),
            Key::Map | Key::Names => format!("{}[]", self.row.path),
            Key::By("pageSize") | Key::Named("pageSize") => format!("{}.page_size", self.row.path),
            Key::By(field) | Key::Named(field) => format!("{}.{field}", self.row.path),
        };
        only(&self.row.path, &mut |path, kind| {
            let number = self.number.to_string();
            let text = match path {
                path if path == key => name.as_str(),
                "linux.devices.type" => "c",
                // An empty class clears the class.
                "linux.resources.blockio_class.value" | "linux.resources.rdt_class.value" => {
                    if self.number.is_multiple_of(3) { "" } else { "fast" }
                }
                _ => &number,
            };
            of_number(path, kind, self.number, text)
        })
    }

    /// Returns the fields and keys that the atom claims or may claim. Two atoms without a common
    /// claim never conflict.
    fn claims(&self, config: &Value) -> BTreeSet<(i32, String)> {
        let field =
            |field: &nri_api::proto::Field| (protobuf::Enum::value(field), self.name(config));
        match &self.row.claim {
            Claim::Of(of) if field_kind(*of) != Some(FieldKind::Accumulated) => [field(of)].into(),
            Claim::Clears(all) => all.iter().map(field).collect(),
            Claim::Of(_) | Claim::Unowned => BTreeSet::new(),
        }
    }
}

/// Random change of an OCI config: index of an object, index of a member or value, and whether the
/// member is removed (an unknown member is added otherwise).
type Mutation = (u16, u8, bool);

fn config() -> impl Strategy<Value = Value> {
    let samples: Vec<Value> = files("../../src/spec/tests/samples", ".config.json")
        .iter()
        .map(|path| spec_tests::read_json(path))
        .chain([json!({}), json!({ "process": { "cwd": "/" }, "linux": {} })])
        .collect();
    (select(samples), vec(any::<Mutation>(), 0..8)).prop_map(|(sample, mutations)| {
        mutations.into_iter().fold(sample, |config, mutation| {
            let mutated = mutate(config.clone(), mutation);
            // A config without a valid `Container` message is refused before plugins are called.
            let container = to_container(
                &OciConfig::from_value(mutated.clone()).unwrap(),
                &ContainerInfo::default(),
            );
            if container.is_ok() { mutated } else { config }
        })
    })
}

fn mutate(mut config: Value, (object, index, remove): Mutation) -> Value {
    let mut objects = Vec::new();
    find_objects(&config, "", &mut objects);
    let object = &objects[usize::from(object) % objects.len()];
    let fields = config.pointer_mut(object).and_then(Value::as_object_mut).unwrap();
    if remove {
        let key = fields.keys().nth(usize::from(index) % fields.len().max(1)).cloned();
        key.and_then(|key| fields.shift_remove(&key));
    } else {
        let values = [
            r#""x""#,
            "1.0",
            "1e3",
            "-0",
            "123456789012345678901234567890",
            "[]",
            r#"{"": [null]}"#,
        ];
        let value = values[usize::from(index) % values.len()];
        fields.insert(format!("x-{index}"), serde_json::from_str(value).unwrap());
    }
    config
}

fn find_objects(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.push(path.to_owned());
            for (key, inner) in fields {
                find_objects(inner, &format!("{path}/{}", pointers::escaped(key)), found);
            }
        }
        Value::Array(entries) => {
            entries
                .iter()
                .enumerate()
                .for_each(|(i, e)| find_objects(e, &format!("{path}/{i}"), found));
        }
        _ => {}
    }
}

fn host() -> Value {
    let device = |name: &str| {
        let env = [format!("CDI_{name}=1")];
        json!({ "name": name, "containerEdits": { "env": env } })
    };
    json!({
        "blockio": { "fast": { "weight": 7 } },
        "rdt": { "fast": { "closID": "fast", "l3CacheSchema": "L3:0=1" } },
        "cdi": [{ "path": "/etc/cdi/v.json", "priority": 0, "content": {
            "cdiVersion": "1.1.0", "kind": "v.com/c", "devices": [device("a"), device("b")],
        } }],
    })
}

fn plugin(number: usize) -> PluginId {
    PluginId::from_file_name(&format!("{number:02}-p")).unwrap()
}

fn reply(adjust: ContainerAdjustment) -> CreateContainerResponse {
    CreateContainerResponse { adjust: Some(adjust).into(), ..Default::default() }
}

fn merge(config: &Value) -> CreateMerge {
    let info = ContainerInfo { id: "me".to_owned(), ..Default::default() };
    let container = to_container(&OciConfig::from_value(config.clone()).unwrap(), &info).unwrap();
    CreateMerge::new(Default::default(), container)
}

/// Merges atoms, each as the reply of the plugin with its number. Returns the outcome, and the
/// numbers of the plugins with a rejected reply.
fn outcome(config: &Value, atoms: &[(usize, Atom)]) -> (CreateOutcome, Vec<usize>) {
    let (mut merge, mut refused) = (merge(config), Vec::new());
    for (number, atom) in atoms {
        if merge.reply(&plugin(*number), reply(atom.adjust(config))).is_err() {
            refused.push(*number);
        }
    }
    (merge.finish(), refused)
}

/// Applies an outcome to an OCI config. Returns the new config and whether it changed. (`apply_on`
/// checks that an error leaves the OCI config unchanged.)
fn adjusted(config: &Value, outcome: &CreateOutcome) -> Result<(Value, bool), String> {
    apply_on(&host(), config, &protojson(&outcome.adjust))
}

fn numbered(atoms: &[Atom]) -> Vec<(usize, Atom)> {
    atoms.iter().copied().enumerate().collect()
}

/// Removes atoms that have a claim in common with an earlier atom.
fn without_conflicts(config: &Value, atoms: Vec<Atom>) -> Vec<Atom> {
    let mut claimed = BTreeSet::new();
    let has_no_conflict = |atom: &Atom| {
        let claims = atom.claims(config);
        let is_disjoint = claimed.is_disjoint(&claims);
        claimed.extend(claims);
        is_disjoint
    };
    atoms.into_iter().filter(has_no_conflict).collect()
}

/// Returns an OCI config in which the lists that plugins append to are sorted.
fn unordered(config: &Value) -> Value {
    fn sort(value: &mut Value) {
        match value {
            Value::Array(entries) => entries.sort_by_key(Value::to_string),
            Value::Object(fields) => fields.values_mut().for_each(sort),
            _ => {}
        }
    }
    let mut copy = by_name(config);
    for list in ["/hooks", "/linux/resources/devices"] {
        copy.pointer_mut(list).into_iter().for_each(sort);
    }
    copy
}

/// Collects pointers to objects whose unchanged members have another order in `after`. Mounts are
/// excluded, because an adjustment sorts them.
fn reordered(before: &Value, after: &Value, path: &str, found: &mut Vec<String>) {
    let (Value::Object(x), Value::Object(y)) = (before, after) else { return };
    let is_unchanged = |key: &&String| x.get(*key) == y.get(*key);
    if x.keys().filter(is_unchanged).ne(y.keys().filter(is_unchanged)) && path != "/mounts" {
        found.push(path.to_owned());
    }
    for (key, inner) in x {
        y.get(key)
            .into_iter()
            .for_each(|other| reordered(inner, other, &format!("{path}/{key}"), found));
    }
}

/// Returns a reply that requests nothing: without an adjustment, with an empty adjustment, or with
/// empty messages in it.
fn empty_reply() -> impl Strategy<Value = CreateContainerResponse> {
    let resources = LinuxResources::new();
    let linux =
        LinuxContainerAdjustment { resources: Some(resources).into(), ..Default::default() };
    let grouped = ContainerAdjustment { linux: Some(linux).into(), ..Default::default() };
    select(vec![CreateContainerResponse::new(), reply(ContainerAdjustment::new()), reply(grouped)])
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96, // instead of 256: each case parses and applies a whole OCI config
        failure_persistence: None,
        ..Default::default()
    })]

    /// Replies that request nothing keep all bytes of the OCI config, and claim no field.
    #[test]
    fn empty_replies_change_nothing(config in config(), replies in vec(empty_reply(), 0..4)) {
        let bytes = config.to_string().into_bytes();
        let mut parsed = OciConfig::parse(&bytes).unwrap();
        let mut merge = merge(&config);
        for (number, reply) in replies.into_iter().enumerate() {
            merge.reply(&plugin(number), reply).unwrap();
        }
        let outcome = merge.finish();
        let applied = apply(&mut parsed, &outcome.adjust, &ApplyContext::default()).unwrap();
        prop_assert!(!applied.changed);
        prop_assert_eq!(parsed.to_bytes(), bytes);
        prop_assert_eq!(outcome.owners.owners.len(), 0);
    }

    /// The order of plugins without common claims changes nothing but the order of list entries.
    /// The order of entries in the maps of an adjustment changes nothing.
    #[test]
    fn the_order_of_independent_plugins_does_not_matter(
        config in config(),
        atoms in vec(atom(), 2..8),
        rotation in 1..8usize,
    ) {
        let atoms = without_conflicts(&config, atoms);
        let mut replies = numbered(&atoms);
        let (merged, refused) = outcome(&config, &replies);
        prop_assert_eq!(refused, Vec::<usize>::new());
        let first = adjusted(&config, &merged);
        prop_assert_eq!(&first, &adjusted(&config, &outcome(&config, &replies).0));
        replies.rotate_left(rotation % atoms.len());
        replies[1..].reverse();
        let second = adjusted(&config, &outcome(&config, &replies).0);
        prop_assert_eq!(first.is_ok(), second.is_ok());
        if let (Ok((first, _)), Ok((second, _))) = (first, second) {
            prop_assert_eq!(unordered(&first), unordered(&second));
        }
    }

    /// Members that no plugin requested keep their value and order, and the flag `changed` is true
    /// exactly if the text of the OCI config differs.
    #[test]
    fn only_requested_fields_change(config in config(), atoms in vec(atom(), 0..8)) {
        let (outcome, refused) = outcome(&config, &numbered(&atoms));
        let (after, changed) = adjusted(&config, &outcome).unwrap();
        // Compared as text, because the order of keys and the notation of numbers count.
        let (old, new) = (config.to_string(), after.to_string());
        prop_assert_eq!(changed, old != new);
        let requested: Vec<String> = numbered(&atoms)
            .iter()
            .filter(|(number, _)| !refused.contains(number))
            .flat_map(|(_, atom)| allowed(&protojson(&atom.adjust(&config)), &ROWS))
            .collect();
        prop_assert_eq!(outside(&config, &after, &requested), Vec::<String>::new());
        let mut moved = Vec::new();
        reordered(&by_name(&config), &by_name(&after), "", &mut moved);
        prop_assert_eq!(moved, Vec::<String>::new());
    }

    /// A rejected reply leaves neither a claim nor a change: the outcome is the same as without
    /// this reply.
    #[test]
    fn a_rejected_reply_leaves_no_claim(
        config in config(),
        atoms in vec(atom(), 1..8),
        repeated in any::<usize>(),
    ) {
        let mut all = numbered(&atoms);
        let repeated = atoms[repeated % atoms.len()];
        all.push((all.len(), repeated)); // a conflict, unless `repeated` removes or appends
        // Plugins 10 to 16 repeat the requests of all plugins.
        all.extend(atoms.iter().rev().enumerate().map(|(i, atom)| (10 + i, *atom)));
        let (with, refused) = outcome(&config, &all);
        let is_owned =
            matches!(repeated.row.claim, Claim::Of(_)) && !repeated.claims(&config).is_empty();
        if !repeated.remove && is_owned {
            prop_assert!(refused.contains(&atoms.len()));
        }
        all.retain(|(number, _)| !refused.contains(number));
        let (without, refused) = outcome(&config, &all);
        prop_assert_eq!(refused, Vec::<usize>::new());
        prop_assert_eq!(&with.owners, &without.owners);
        prop_assert_eq!(&with.adjust, &without.adjust);
        prop_assert_eq!(adjusted(&config, &with), adjusted(&config, &without));
    }

    /// A CDI device that the host does not have fails the whole adjustment, and the OCI config
    /// stays unchanged.
    #[test]
    fn a_failed_adjustment_changes_nothing(config in config(), atoms in vec(atom(), 0..8)) {
        let mut outcome = outcome(&config, &numbered(&atoms)).0;
        let missing = CDIDevice { name: "v.com/c=none".to_owned(), ..Default::default() };
        outcome.adjust.CDI_devices.push(missing);
        prop_assert!(adjusted(&config, &outcome).is_err());
    }
}

/// Each atom alone is accepted, and changes an OCI config that does not have its value yet. This
/// test is needed because the properties above would also hold if no atom had an effect.
#[test]
fn every_field_has_an_atom_that_changes_the_config() {
    let config = json!({ "process": { "cwd": "/" }, "linux": { "intelRdt": { "closID": "old" } } });
    for row in ROWS.iter() {
        let atom = Atom { row, key: 0, number: 1, remove: false };
        let (outcome, refused) = outcome(&config, &[(0, atom)]);
        assert_eq!(refused, Vec::<usize>::new(), "{}", row.path);
        let (after, changed) = adjusted(&config, &outcome).unwrap();
        assert!(changed, "{}", row.path);
        assert_eq!(
            outside(&config, &after, &allowed(&protojson(&atom.adjust(&config)), &ROWS)),
            [""; 0]
        );
        assert_ne!(outside(&config, &after, &[]), [""; 0], "{}", row.path);
        assert_eq!(
            outcome.owners.owners.is_empty(),
            matches!(row.claim, Claim::Unowned),
            "{}",
            row.path
        );
    }
}

/// The functions `outside` and `reordered` report a change of a value that is not allowed, a lost
/// entry, and another order.
#[test]
fn a_change_of_another_field_is_reported() {
    let before = json!({
        "process": { "env": ["A=1", "B=2"], "args": ["x"] },
        "hooks": { "prestart": [{ "path": "/h" }] },
        "linux": { "resources": { "pids": { "limit": 1 } } },
    });
    let check = |allowed: &str, pointer: &str, value: Value, expected: &[&str]| {
        let mut after = before.clone();
        match after.pointer_mut(pointer) {
            Some(at) => *at = value,
            None => panic!("{pointer}"),
        }
        assert_eq!(outside(&before, &after, &[allowed.to_owned()]), expected, "{allowed} {after}");
    };
    check("/process/env/A", "/process/env/0", json!("A=2"), &[]);
    check("/process/env/B", "/process/env/0", json!("A=2"), &["/process/env/A/0"]);
    check("/process/env/A", "/process/env", json!(["A=1"]), &["/process/env/B"]);
    check("/process/env/C", "/process/env", json!(["A=1", "B=2", "C=3"]), &[]);
    check("/process/arg", "/process/args", json!(["y"]), &["/process/args/0"]);
    check("/hooks/prestart/+", "/hooks/prestart", json!([{ "path": "/h" }, { "path": "/i" }]), &[]);
    check(
        "/hooks/prestart/+",
        "/hooks/prestart",
        json!([{ "path": "/i" }]),
        &["/hooks/prestart/0/path"],
    );
    check("/hooks/prestart/+", "/hooks/prestart", json!([]), &["/hooks/prestart/0"]);
    check(
        "/linux/x/y",
        "/linux",
        json!({ "resources": { "pids": { "limit": 1 } }, "x": { "y": 1, "z": 2 } }),
        &["/linux/x/z"],
    );
    check(
        "/linux/x/y",
        "/linux/resources/pids",
        json!({ "limit": 1, "more": 1 }),
        &["/linux/resources/pids/more"],
    );
    let mut moved = Vec::new();
    reordered(
        &by_name(&before),
        &by_name(&json!({ "process": { "env": ["B=2", "A=1"] } })),
        "",
        &mut moved,
    );
    assert_eq!(moved, ["/process/env"]);
}
