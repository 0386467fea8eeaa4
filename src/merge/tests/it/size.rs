//! Merges each list and map of the protocol with as many entries as a message holds, and checks
//! that no entry is lost. A merge with quadratic work would take hours.

use crate::cases::plugin;
use nri_api::MAX_MESSAGE;
use nri_api::proto::{
    Container, ContainerUpdate, CreateContainerResponse, Field, HugepageLimit, LinuxResources,
    UpdateContainerResponse,
};
use nri_merge::{CreateMerge, UpdateMerge, UpdatesMerge, validator};
use protobuf::reflect::{
    FieldDescriptor, MessageDescriptor, ReflectFieldRef, ReflectValueBox, ReflectValueRef,
    RuntimeFieldType, RuntimeType,
};
use protobuf::{Enum, Message, MessageDyn, MessageFull};

/// Path of a list or map: the fields from the reply down to the list.
type List = Vec<FieldDescriptor>;

/// Lists whose entries another plugin can remove.
const MARKED: [&str; 6] = [
    "adjust.annotations",
    "adjust.mounts",
    "adjust.env",
    "adjust.linux.devices",
    "adjust.linux.sysctl",
    "adjust.linux.net_devices",
];

/// Rules of the device cgroup, which updates cannot set.
const IGNORED: &str = "update.linux.resources.devices";

/// Collects the lists below a message.
fn lists(message: &MessageDescriptor, path: &[FieldDescriptor], found: &mut Vec<List>) {
    for field in message.fields() {
        let path = [path, std::slice::from_ref(&field)].concat();
        let kind = field.runtime_field_type();
        if !matches!(kind, RuntimeFieldType::Singular(_)) {
            found.push(path.clone());
        }
        if let RuntimeFieldType::Singular(RuntimeType::Message(inner))
        | RuntimeFieldType::Repeated(RuntimeType::Message(inner)) = kind
        {
            lists(&inner, &path, found);
        }
    }
}

fn name(list: &[FieldDescriptor]) -> String {
    list.iter().map(|field| field.name()).collect::<Vec<_>>().join(".")
}

/// Returns a message that has only the list at the path `list`, with an entry for each key.
fn build(
    message: &MessageDescriptor,
    list: &[FieldDescriptor],
    keys: &[String],
) -> Box<dyn MessageDyn> {
    let mut built = message.new_instance();
    let Some((field, rest)) = list.split_first() else { return built };
    match field.runtime_field_type() {
        RuntimeFieldType::Singular(RuntimeType::Message(inner)) => {
            field.set_singular_field(
                &mut *built,
                ReflectValueBox::Message(build(&inner, rest, keys)),
            );
        }
        RuntimeFieldType::Repeated(RuntimeType::Message(inner)) if !rest.is_empty() => {
            field
                .mut_repeated(&mut *built)
                .push(ReflectValueBox::Message(build(&inner, rest, keys)));
        }
        RuntimeFieldType::Repeated(kind) => {
            let mut entries = field.mut_repeated(&mut *built);
            keys.iter().for_each(|key| entries.push(entry(&kind, key)));
        }
        RuntimeFieldType::Map(_, kind) => {
            let mut entries = field.mut_map(&mut *built);
            let key = |key: &String| ReflectValueBox::String(key.clone());
            keys.iter().for_each(|k| entries.insert(key(k), entry(&kind, "")));
        }
        _ => panic!("{} is neither a message nor a list", field.name()),
    }
    built
}

/// Returns an entry whose first string field, its key, is `key`.
fn entry(kind: &RuntimeType, key: &str) -> ReflectValueBox {
    match kind {
        RuntimeType::String => ReflectValueBox::String(key.to_owned()),
        RuntimeType::Enum(kind) => ReflectValueBox::Enum(kind.clone(), 1),
        RuntimeType::Message(kind) => {
            let mut message = kind.new_instance();
            let is_text = |f: &FieldDescriptor| {
                matches!(f.runtime_field_type(), RuntimeFieldType::Singular(RuntimeType::String))
            };
            if let Some(field) = kind.fields().find(is_text) {
                field.set_singular_field(&mut *message, ReflectValueBox::String(key.to_owned()));
            }
            ReflectValueBox::Message(message)
        }
        other => panic!("this test cannot fill lists of {other:?}"),
    }
}

fn reply(list: &[FieldDescriptor], keys: &[String]) -> CreateContainerResponse {
    let built = build(&CreateContainerResponse::descriptor(), list, keys);
    *built.downcast_box().unwrap()
}

/// Returns the number of entries of a list.
fn count(message: &dyn MessageDyn, list: &[FieldDescriptor]) -> usize {
    let Some((field, rest)) = list.split_first() else { return 0 };
    match (field.get_reflect(message), rest) {
        (ReflectFieldRef::Repeated(entries), []) => entries.len(),
        (ReflectFieldRef::Map(entries), []) => entries.len(),
        (ReflectFieldRef::Repeated(entries), rest) => match entries.into_iter().next() {
            Some(ReflectValueRef::Message(inner)) => count(&*inner, rest),
            _ => 0,
        },
        (ReflectFieldRef::Optional(value), rest) => match value.value() {
            Some(ReflectValueRef::Message(inner)) => count(&*inner, rest),
            _ => 0,
        },
        (ReflectFieldRef::Map(_), _) => 0,
    }
}

/// Returns the list of the container that an adjustment's list changes, if it has one.
fn in_container(list: &[FieldDescriptor]) -> Option<List> {
    let mut message = Container::descriptor();
    let mut found = List::new();
    for name in list.iter().skip(1).map(|field| field.name()) {
        let field = message.field_by_name(name)?;
        if let RuntimeFieldType::Singular(RuntimeType::Message(inner)) = field.runtime_field_type()
        {
            message = inner;
        }
        found.push(field);
    }
    (list[0].name() == "adjust").then_some(found)
}

/// Returns a container whose list has these entries.
fn container(list: &[FieldDescriptor], keys: &[String]) -> Container {
    let filled = in_container(list).map(|list| {
        let is_env = list.last().is_some_and(|field| field.name() == "env");
        let keys: Vec<String> =
            keys.iter().map(|key| if is_env { format!("{key}=") } else { key.clone() }).collect();
        *build(&Container::descriptor(), &list, &keys).downcast_box::<Container>().unwrap()
    });
    Container { id: "me".into(), ..filled.unwrap_or_default() }
}

/// Checks a merge in which one plugin sets half of a container's entries and removes the other
/// half, and a second plugin removes the entries that the first plugin set.
fn check(list: &[FieldDescriptor]) {
    let path = name(list);
    let key = |i: usize| format!("example.org/key{i:07}");
    let marked = |i: usize| format!("-{}", key(i));
    let sample: Vec<String> = (0..100).map(marked).collect();
    // As many entries as fit into a message, rounded down to an even number.
    let entry_count =
        (MAX_MESSAGE * 100 / usize::try_from(reply(list, &sample).compute_size()).unwrap()) & !1;
    let all: Vec<String> = (0..entry_count).map(key).collect();
    let mixed: Vec<String> =
        (0..entry_count).map(|i| if i % 2 == 0 { key(i) } else { marked(i) }).collect();
    let mut merge = CreateMerge::new(Default::default(), container(list, &all));
    merge.reply(&plugin("00-a"), reply(list, &mixed)).unwrap();
    if MARKED.contains(&&*path) {
        let rest: Vec<String> = (0..entry_count).step_by(2).map(marked).collect();
        merge.reply(&plugin("10-b"), reply(list, &rest)).unwrap();
    }
    let outcome = merge.finish();
    validator::validate(&Default::default(), &outcome.validation()).unwrap();
    let merged = CreateContainerResponse {
        adjust: Some(outcome.adjust).into(),
        update: outcome.updates,
        evict: outcome.evictions,
        ..Default::default()
    };
    assert_eq!(count(&merged, list), if path == IGNORED { 0 } else { entry_count }, "{path}");
    // Fewer entries would not show quadratic work.
    assert!(entry_count > 100_000, "{path}: {entry_count}");
}

fn all() -> Vec<List> {
    let mut all = Vec::new();
    lists(&CreateContainerResponse::descriptor(), &[], &mut all);
    all
}

/// Generates a test for the lists of each path prefix. `all_other_lists_are_merged` tests the rest.
macro_rules! tests {
    ($($test:ident: $prefix:literal),* $(,)?) => {
        const TESTS: &[&str] = &[$($prefix),*];
        $(#[test] fn $test() {
            let has_prefix = |list: &List| tested_prefix(&name(list)) == Some($prefix);
            let found: Vec<_> = all().into_iter().filter(has_prefix).collect();
            assert!(!found.is_empty(), "no list begins with {}", $prefix);
            found.iter().for_each(|list| check(list));
        })*
    };
}

tests! {
    annotations_are_merged: "adjust.annotations",
    mounts_are_merged: "adjust.mounts",
    env_entries_are_merged: "adjust.env",
    create_hooks_are_merged: "adjust.hooks.create_",
    post_hooks_are_merged: "adjust.hooks.post",
    other_hooks_are_merged: "adjust.hooks.",
    devices_are_merged: "adjust.linux.devices",
    device_rules_are_merged: "adjust.linux.resources.devices",
    seccomp_lists_are_merged: "adjust.linux.seccomp_policy",
    hugepage_limits_are_merged: "adjust.linux.resources.hugepage_limits",
    unified_entries_are_merged: "adjust.linux.resources.unified",
    namespaces_are_merged: "adjust.linux.namespaces",
    sysctls_are_merged: "adjust.linux.sysctl",
    net_devices_are_merged: "adjust.linux.net_devices",
    rlimits_are_merged: "adjust.rlimits",
    cdi_devices_are_merged: "adjust.CDI_devices",
    updates_are_merged: "update",
    updated_hugepage_limits_are_merged: "update.linux.resources.hugepage_limits",
    updated_unified_entries_are_merged: "update.linux.resources.unified",
}

/// Returns the longest prefix of a path that has a test.
fn tested_prefix(path: &str) -> Option<&'static str> {
    TESTS
        .iter()
        .copied()
        .filter(|beginning| path.starts_with(beginning))
        .max_by_key(|beginning| beginning.len())
}

#[test]
fn all_other_lists_are_merged() {
    let is_other = |list: &&List| tested_prefix(&name(list)).is_none();
    all().iter().filter(is_other).for_each(|list| check(list));
}

/// Merges an update whose container id takes half of a message. If each claim had a copy of the id,
/// the ledger would need 256 GiB.
#[test]
fn the_id_of_a_container_is_not_stored_for_each_key() {
    let id = "x".repeat(MAX_MESSAGE / 2);
    // In the other half of the message, each entry takes about 16 bytes: 10 for the key, the rest
    // for lengths and tags.
    let entry_count = MAX_MESSAGE / 2 / 16;
    let mut update = ContainerUpdate { container_id: id.clone(), ..Default::default() };
    let files = (0..entry_count).map(|i| (format!("key{i:07}"), String::new())).collect();
    update.linux.mut_or_insert_default().resources.mut_or_insert_default().unified = files;
    let mut merge = UpdatesMerge::new();
    merge.reply(&plugin("00-a"), vec![update]).unwrap();
    let owners = merge.finish().owners;
    assert_eq!(
        owners.owners[&id].compound[&Field::CgroupsUnified.value()].owners.len(),
        entry_count
    );
}

#[test]
fn a_message_full_of_updates_of_one_container_is_merged() {
    let update = |i: usize| {
        let mut update = ContainerUpdate { container_id: "x".into(), ..Default::default() };
        let limit = HugepageLimit { page_size: format!("{i:07}"), ..Default::default() };
        update
            .linux
            .mut_or_insert_default()
            .resources
            .mut_or_insert_default()
            .hugepage_limits
            .push(limit);
        update
    };
    // An encoded update takes 20 bytes.
    let reply = UpdateContainerResponse {
        update: (0..MAX_MESSAGE / 20).map(update).collect(),
        ..Default::default()
    };
    assert!(reply.compute_size() <= MAX_MESSAGE as u64);
    let limits =
        (0..MAX_MESSAGE / 20).map(|i| update(i).linux.resources.hugepage_limits[0].clone());
    let requested = LinuxResources { hugepage_limits: limits.collect(), ..Default::default() };
    let container = Container { id: "x".into(), ..Default::default() };
    let mut merge = UpdateMerge::new(Default::default(), container, requested.clone());
    merge.reply(&plugin("00-a"), reply).unwrap();
    assert_eq!(merge.finish().resources, requested);
}

#[test]
fn a_message_full_of_unknown_fields_is_merged() {
    let mut update = ContainerUpdate { container_id: "x".into(), ..Default::default() };
    // Many values of one field, and one value each of many fields.
    let fields = update.mut_unknown_fields();
    (0..MAX_MESSAGE / 4).for_each(|_| fields.add_varint(1000, 1));
    (0..MAX_MESSAGE / 8).for_each(|i| fields.add_varint(2000 + u32::try_from(i).unwrap(), 1));
    let mut merge = UpdatesMerge::new();
    merge.reply(&plugin("00-a"), vec![update; 2]).unwrap();
    let ignored = merge.finish().ignored.len();
    assert_eq!(ignored, 16, "the merge records at most 16 paths per plugin");
}
