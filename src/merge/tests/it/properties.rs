//! Properties that hold for any merge.

use crate::cases::{CONTAINER, message, plugin};
use nri_api::proto::{
    Container, ContainerAdjustment, CreateContainerResponse, Field, OwningPlugins,
};
use nri_api::{FieldKind, FieldRow, Form, Marked, PluginId, field_row, fields};
use nri_merge::{CreateMerge, CreateOutcome, MergeError};
use proptest::collection::vec;
use proptest::prelude::*;
use protobuf::reflect::{FieldDescriptor, RuntimeFieldType, RuntimeType};
use protobuf::{Enum, MessageFull};
use protobuf_json_mapping::{PrintOptions, print_to_string_with_options};
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashMap};

/// One value that a reply sets or removes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Atom {
    field: Field,
    key: &'static str,
    value: u8,
    remove: bool,
}

/// Fields whose keys may have a removal marker. The namespace is last: a test leaves it out.
const MARKED: &[Field] = &[
    Field::Annotations,
    Field::Mounts,
    Field::Env,
    Field::Devices,
    Field::Sysctl,
    Field::LinuxNetDevices,
    Field::Namespace,
];
/// Keys of all fields: few, so that replies often have keys in common.
const KEYS: &[&str] = &["a", "b", "c"];

fn atom() -> impl Strategy<Value = Atom> {
    let fields: Vec<Field> = Field::VALUES
        .iter()
        .copied()
        .filter(|f| !matches!(f, Field::None | Field::OciHooks))
        .collect();
    let field = prop_oneof![proptest::sample::select(fields), proptest::sample::select(MARKED)];
    (field, proptest::sample::select(KEYS), 1..9u8, any::<bool>()).prop_map(
        |(field, key, value, remove)| Atom {
            field,
            key,
            value,
            remove: remove && MARKED.contains(&field),
        },
    )
}

fn atoms() -> impl Strategy<Value = Vec<Atom>> {
    vec(atom(), 0..8)
}

impl Atom {
    /// Returns the field and the key; a field that is owned as a whole has no key.
    fn field_and_key(&self) -> (i32, &'static str) {
        let compound = nri_api::field_kind(self.field) == Some(nri_api::FieldKind::Compound);
        (self.field.value(), if compound { self.key } else { "" })
    }

    /// Returns a reply with this value only, in the protocol's names.
    fn json(&self) -> Value {
        let row = field_row(self.field).unwrap();
        let path = if self.field == Field::OciHooks { "hooks.prestart" } else { row.message };
        let (mut message, mut kind) = (ContainerAdjustment::descriptor(), None);
        for name in path.split('.') {
            let field = message.field_by_name(name).unwrap().runtime_field_type();
            if let RuntimeFieldType::Singular(RuntimeType::Message(inner)) = &field {
                message = inner.clone();
            }
            kind = Some(field);
        }
        let key = format!("{}{}", if self.remove { "-" } else { "" }, self.key);
        let value = match kind.unwrap() {
            RuntimeFieldType::Singular(kind) => value_of(&kind, self.value).unwrap(),
            RuntimeFieldType::Map(_, kind) => json!({ key: value_of(&kind, self.value) }),
            RuntimeFieldType::Repeated(kind) => {
                let mut entry = value_of(&kind, self.value).unwrap();
                if let Some(name) = key_name(&row) {
                    entry[name] = key.into();
                }
                json!([entry])
            }
        };
        path.rsplit('.').fold(value, |value, name| json!({ name: value }))
    }
}

/// Returns a value of this type made of a number; `None` for an enum and for lists of messages.
fn value_of(kind: &RuntimeType, number: u8) -> Option<Value> {
    let member = |field: FieldDescriptor| match field.runtime_field_type() {
        RuntimeFieldType::Singular(RuntimeType::Message(_)) => None,
        RuntimeFieldType::Singular(kind) => {
            Some((field.name().to_owned(), value_of(&kind, number)?))
        }
        RuntimeFieldType::Repeated(RuntimeType::String) if field.name() == "value" => {
            Some((field.name().to_owned(), json!([number.to_string()])))
        }
        _ => None,
    };
    match kind {
        RuntimeType::Enum(_) => None,
        RuntimeType::Bool => Some(number.is_multiple_of(2).into()),
        RuntimeType::String => Some(number.to_string().into()),
        RuntimeType::Message(message) => Some(message.fields().filter_map(member).collect()),
        _ => Some(number.into()),
    }
}

/// Returns the name of the field that is the key of an element; `None` if a list has no keys.
fn key_name(row: &FieldRow) -> Option<&'static str> {
    match row.form {
        Form::List("pageSize") => Some("page_size"),
        Form::List(key) => Some(key),
        Form::Variables => Some("key"),
        Form::Map => Some("name"),
        _ => None,
    }
}

/// Returns a reply with all `atoms`. The atoms are joined as JSON, since rust-protobuf replaces
/// submessages instead of merging them.
fn reply(atoms: &[Atom]) -> CreateContainerResponse {
    let mut all = Value::Object(Map::new());
    for atom in atoms {
        join(&mut all, atom.json());
    }
    CreateContainerResponse { adjust: Some(message(&all.to_string())).into(), ..Default::default() }
}

/// Joins objects and appends lists; the second of two values is kept.
fn join(all: &mut Value, one: Value) {
    match (all, one) {
        (Value::Object(all), Value::Object(one)) => {
            one.into_iter().for_each(|(key, value)| match all.get_mut(&key) {
                Some(present) => join(present, value),
                None => {
                    all.insert(key, value);
                }
            });
        }
        (Value::Array(all), Value::Array(one)) => all.extend(one),
        (all, one) => *all = one,
    }
}

fn id(number: usize) -> PluginId {
    plugin(&format!("{number:02}-p"))
}

fn new_merge() -> CreateMerge {
    CreateMerge::new(Default::default(), message::<Container>(CONTAINER))
}

fn outcome(replies: &[(PluginId, Vec<Atom>)]) -> Result<CreateOutcome, MergeError> {
    let mut merge = new_merge();
    for (id, atoms) in replies {
        merge.reply(id, reply(atoms))?;
    }
    Ok(merge.finish())
}

/// Sorts the lists of an outcome, whose order depends on the order of plugins.
fn unordered(mut outcome: CreateOutcome) -> CreateOutcome {
    fn sort<T: std::fmt::Debug>(list: &mut [T]) {
        list.sort_by_key(|entry| format!("{entry:?}"));
    }
    let (adjust, container) = (&mut outcome.adjust, &mut outcome.container);
    sort(&mut adjust.mounts);
    sort(&mut adjust.env);
    sort(&mut adjust.rlimits);
    sort(&mut adjust.CDI_devices);
    sort(&mut container.mounts);
    sort(&mut container.env);
    sort(&mut container.rlimits);
    let linux = adjust.linux.mut_or_insert_default();
    sort(&mut linux.devices);
    sort(&mut linux.namespaces);
    sort(&mut linux.resources.mut_or_insert_default().hugepage_limits);
    let linux = container.linux.mut_or_insert_default();
    sort(&mut linux.devices);
    sort(&mut linux.namespaces);
    sort(&mut linux.resources.mut_or_insert_default().hugepage_limits);
    outcome.consulted.sort();
    outcome
}

/// Returns the fields and keys that are set according to the ledger, and their owners.
fn owned(owners: &OwningPlugins) -> HashMap<(i32, String), String> {
    let Some(fields) = owners.owners.get("me") else { return HashMap::new() };
    let simple =
        fields.simple.iter().map(|(field, owner)| ((*field, String::new()), owner.clone()));
    let compound = fields.compound.iter().flat_map(|(field, keys)| {
        keys.owners.iter().map(|(key, owner)| ((*field, key.clone()), owner.clone()))
    });
    simple.chain(compound).filter(|(_, owner)| !owner.starts_with('-')).collect()
}

/// Returns the fields and keys that an adjustment sets, removals of namespaces included.
fn claimed_by_values(adjust: &ContainerAdjustment) -> BTreeSet<(i32, String)> {
    let options = PrintOptions { proto_field_name: true, ..Default::default() };
    let text = print_to_string_with_options(adjust, &options).unwrap();
    let adjust: Value = serde_json::from_str(&text).unwrap();
    let mut claimed = BTreeSet::new();
    let mut put = |field: Field, key: &str| {
        assert!(
            claimed.insert((field.value(), key.to_owned())),
            "{field:?} {key} twice in {adjust}"
        );
    };
    for row in fields().filter(|row| !row.message.is_empty()) {
        let Some(field) = row.owner.filter(|field| *field != Field::OciHooks) else { continue };
        let Some(value) = row.message.split('.').try_fold(&adjust, |at, name| at.get(name)) else {
            continue;
        };
        let keys: Vec<&str> = match (row.kind(), value) {
            (FieldKind::Compound, Value::Object(map)) => map.keys().map(String::as_str).collect(),
            (FieldKind::Compound, list) => {
                let name = key_name(&row).unwrap();
                let entries = list.as_array().unwrap().iter();
                entries
                    .map(|entry| entry.get(name).map_or("", |key| key.as_str().unwrap()))
                    .collect()
            }
            _ => vec![""],
        };
        let mut seen = BTreeSet::new();
        for key in keys {
            let marked =
                if MARKED.contains(&field) { Marked::parse(key) } else { Marked::Set(key) };
            assert!(seen.insert(marked.key()), "{field:?} {key} twice in {adjust}");
            if matches!(marked, Marked::Set(_)) || field == Field::Namespace {
                put(field, marked.key());
            }
        }
    }
    claimed
}

#[test]
fn a_reply_with_one_field_claims_exactly_that_field() {
    for field in
        Field::VALUES.iter().copied().filter(|f| !matches!(f, Field::None | Field::OciHooks))
    {
        let atom = Atom { field, key: "a", value: 1, remove: false };
        let outcome = outcome(&[(id(0), vec![atom.clone()])]).unwrap();
        let (field, key) = atom.field_and_key();
        let claim = (field, key.to_owned());
        assert_eq!(claimed_by_values(&outcome.adjust), [claim.clone()].into());
        assert_eq!(owned(&outcome.owners), HashMap::from([(claim, id(0).to_string())]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn replies_without_common_keys_can_be_merged_in_any_order(
        atoms in atoms(),
        split in any::<u64>(),
    ) {
        let mut claimed = BTreeSet::new();
        let distinct = atoms.into_iter().filter(|atom| claimed.insert(atom.field_and_key()));
        let distinct: Vec<Atom> = distinct.collect();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for (i, atom) in distinct.into_iter().enumerate() {
            if split >> i & 1 == 0 { first.push(atom) } else { second.push(atom) }
        }
        let (first, second) = ((id(0), first), (id(1), second));
        let in_order = outcome(&[first.clone(), second.clone()]).unwrap();
        let reversed = outcome(&[second, first]).unwrap();
        prop_assert_eq!(unordered(in_order), unordered(reversed));
    }

    #[test]
    fn a_refused_reply_does_not_change_the_merge(replies in vec(atoms(), 1..5)) {
        let mut merge = new_merge();
        for (number, atoms) in replies.iter().enumerate() {
            let before = merge.clone();
            let outcome = merge.reply(&id(number), reply(atoms));
            if let Err(error) = outcome {
                prop_assert_eq!(&merge, &before);
                prop_assert_eq!(error.plugin(), &id(number));
            }
        }
    }

    #[test]
    fn every_claim_has_a_value_and_every_value_has_a_claim(replies in vec(atoms(), 1..5)) {
        let mut merge = new_merge();
        let mut last_setter: HashMap<(i32, String), String> = HashMap::new();
        for (number, atoms) in replies.iter().enumerate() {
            if merge.reply(&id(number), reply(atoms)).is_err() {
                continue;
            }
            for atom in atoms.iter().filter(|a| !a.remove || a.field == Field::Namespace) {
                let (field, key) = atom.field_and_key();
                last_setter.insert((field, key.to_owned()), id(number).to_string());
            }
        }
        let outcome = merge.finish();
        let owned = owned(&outcome.owners);
        prop_assert_eq!(&claimed_by_values(&outcome.adjust), &owned.keys().cloned().collect());
        for (claim, owner) in &owned {
            prop_assert_eq!(Some(owner), last_setter.get(claim));
        }
    }

    #[test]
    fn a_reply_that_removes_and_sets_a_key_overrides_an_earlier_plugin(
        prior in atoms(),
        // Not the namespace, the last one: its removal is a claim, so setting it too is a conflict.
        chosen in 0..MARKED.len() - 1,
        key in proptest::sample::select(KEYS),
    ) {
        let mut merge = new_merge();
        if merge.reply(&id(0), reply(&prior)).is_ok() {
            // No atom of `prior` has the value 9.
            let set = Atom { field: MARKED[chosen], key, value: 9, remove: false };
            let remove = Atom { remove: true, ..set.clone() };
            merge.reply(&id(1), reply(&[set.clone(), remove])).unwrap();
            let outcome = merge.finish();
            let (field, key) = set.field_and_key();
            let claim = (field, key.to_owned());
            let owned = owned(&outcome.owners);
            prop_assert_eq!(owned.get(&claim), Some(&id(1).to_string()));
            prop_assert!(claimed_by_values(&outcome.adjust).contains(&claim));
        }
    }

    #[test]
    fn applying_the_merged_adjustment_gives_the_container_that_plugins_received(
        replies in vec(atoms(), 1..5),
    ) {
        let mut merge = new_merge();
        for (number, atoms) in replies.iter().enumerate() {
            let _ = merge.reply(&id(number), reply(atoms));
        }
        let outcome = merge.finish();
        let mut merge = new_merge();
        let adjust = Some(outcome.adjust.clone()).into();
        merge.reply(&id(9), CreateContainerResponse { adjust, ..Default::default() }).unwrap();
        let (once, twice) = (unordered(outcome), unordered(merge.finish()));
        prop_assert_eq!(once.adjust, twice.adjust);
        prop_assert_eq!(once.container, twice.container);
    }
}
