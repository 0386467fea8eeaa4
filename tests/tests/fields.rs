//! Every adjustable field of the protocol has a handler in the merge: each is set alone, by reflection, and must come out
//! of the merge, seen by the next plugin where a container can tell it, and owned. A field that upstream adds fails here until it has a row.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which clippy takes for ordinary code"
)]

use nri_api::proto::{Container, ContainerAdjustment, CreateContainerResponse, Field, OwningPlugins};
use nri_api::proto::{ContainerUpdate, LinuxResources};
use nri_api::{FieldKind, PluginId, field_kind};
use nri_merge::{CreateMerge, UpdatesMerge};
use protobuf::reflect::{FieldDescriptor, ReflectValueBox, RuntimeFieldType, RuntimeType};
use protobuf::{Enum, MessageDyn, MessageFull};
use std::collections::BTreeSet;

/// What an adjustment of one field claims.
enum Claim {
    Of(Field),
    /// Contributions that nobody owns.
    Nobody,
    /// All of these are given up.
    Clears(&'static [Field]),
}
use Claim::{Clears, Nobody, Of};

/// Path of a field in `ContainerAdjustment`, and what setting it claims.
const HANDLED: &[(&str, Claim)] = &[
    ("annotations", Of(Field::Annotations)),
    ("mounts", Of(Field::Mounts)),
    ("env", Of(Field::Env)),
    ("hooks.prestart", Of(Field::OciHooks)),
    ("hooks.create_runtime", Of(Field::OciHooks)),
    ("hooks.create_container", Of(Field::OciHooks)),
    ("hooks.start_container", Of(Field::OciHooks)),
    ("hooks.poststart", Of(Field::OciHooks)),
    ("hooks.poststop", Of(Field::OciHooks)),
    ("linux.devices", Of(Field::Devices)),
    ("linux.resources.memory.limit", Of(Field::MemLimit)),
    ("linux.resources.memory.reservation", Of(Field::MemReservation)),
    ("linux.resources.memory.swap", Of(Field::MemSwapLimit)),
    ("linux.resources.memory.kernel", Of(Field::MemKernelLimit)),
    ("linux.resources.memory.kernel_tcp", Of(Field::MemTCPLimit)),
    ("linux.resources.memory.swappiness", Of(Field::MemSwappiness)),
    ("linux.resources.memory.disable_oom_killer", Of(Field::MemDisableOomKiller)),
    ("linux.resources.memory.use_hierarchy", Of(Field::MemUseHierarchy)),
    ("linux.resources.cpu.shares", Of(Field::CPUShares)),
    ("linux.resources.cpu.quota", Of(Field::CPUQuota)),
    ("linux.resources.cpu.period", Of(Field::CPUPeriod)),
    ("linux.resources.cpu.realtime_runtime", Of(Field::CPURealtimeRuntime)),
    ("linux.resources.cpu.realtime_period", Of(Field::CPURealtimePeriod)),
    ("linux.resources.cpu.cpus", Of(Field::CPUSetCPUs)),
    ("linux.resources.cpu.mems", Of(Field::CPUSetMems)),
    ("linux.resources.hugepage_limits", Of(Field::HugepageLimits)),
    ("linux.resources.blockio_class", Of(Field::BlockioClass)),
    ("linux.resources.rdt_class", Of(Field::RdtClass)),
    ("linux.resources.unified", Of(Field::CgroupsUnified)),
    ("linux.resources.devices", Nobody),
    ("linux.resources.pids", Of(Field::PidsLimit)),
    ("linux.cgroups_path", Of(Field::CgroupsPath)),
    ("linux.oom_score_adj", Of(Field::OomScoreAdj)),
    ("linux.io_priority", Of(Field::IoPriority)),
    ("linux.seccomp_policy", Of(Field::SeccompPolicy)),
    ("linux.namespaces", Of(Field::Namespace)),
    ("linux.sysctl", Of(Field::Sysctl)),
    ("linux.net_devices", Of(Field::LinuxNetDevices)),
    ("linux.scheduler", Of(Field::LinuxSched)),
    ("linux.rdt.clos_id", Of(Field::RdtClosID)),
    ("linux.rdt.schemata", Of(Field::RdtSchemata)),
    ("linux.rdt.enable_monitoring", Of(Field::RdtEnableMonitoring)),
    ("linux.rdt.remove", Clears(&[Field::RdtClosID, Field::RdtSchemata, Field::RdtEnableMonitoring])),
    ("linux.memory_policy", Of(Field::MemoryPolicy)),
    ("rlimits", Of(Field::Rlimits)),
    ("CDI_devices", Of(Field::CdiDevices)),
    ("args", Of(Field::Args)),
];

/// Messages that only group fields; all others are values of one field.
const GROUPS: &[&str] =
    &["Hooks", "LinuxContainerAdjustment", "LinuxResources", "LinuxMemory", "LinuxCPU", "LinuxRdt"];

/// Paths that a container as plugins see it does not tell, though they are adjusted.
const UNSEEN: &[&str] = &["linux.memory_policy", "CDI_devices"];

/// Paths of `LinuxResources` in which an update has no say.
const NOT_IN_UPDATES: &[&str] = &["devices"];

const PLUGIN: &str = "00-p";
const KEY: &str = "key";

#[test]
fn every_field_of_an_adjustment_is_merged_and_owned() {
    let handled: BTreeSet<String> = HANDLED.iter().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(paths::<ContainerAdjustment>(), handled, "fields of the protocol, and fields with a handler");
    let id = PluginId::from_file_name(PLUGIN).unwrap();
    for (path, claim) in HANDLED {
        let asked: ContainerAdjustment = only(path);
        assert_ne!(asked, ContainerAdjustment::new(), "{path}");
        let mut before = Container { id: "me".to_owned(), ..Default::default() };
        before.linux.mut_or_insert_default().rdt.mut_or_insert_default(); // something to remove
        let mut merge = CreateMerge::new(Default::default(), before.clone());
        let reply = CreateContainerResponse { adjust: Some(asked.clone()).into(), ..Default::default() };
        merge.reply(&id, reply.clone()).unwrap();
        let again = merge.clone().reply(&id, reply);
        let outcome = merge.finish();
        assert_eq!(outcome.adjust, asked, "{path}");
        assert_eq!(outcome.container == before, UNSEEN.contains(path), "{path}: {}", outcome.container);
        assert_eq!(outcome.ignored, [], "{path}");
        let claimed = claims(&outcome.owners, "me");
        let (expected, once) = match claim {
            Nobody => (BTreeSet::new(), false),
            Of(field) => {
                let once = field_kind(*field) != Some(FieldKind::Accumulated);
                ([(field.value(), PLUGIN.to_owned())].into(), once)
            }
            Clears(fields) => (fields.iter().map(|f| (f.value(), format!("-{PLUGIN}"))).collect(), false),
        };
        assert_eq!(claimed, expected, "{path}");
        assert_eq!(again.is_err(), once, "{path}: what has an owner cannot be set twice");
    }
}

#[test]
fn every_field_has_an_adjustment() {
    let adjustable: BTreeSet<i32> = HANDLED
        .iter()
        .filter_map(|(_, claim)| if let Of(field) = claim { Some(field.value()) } else { None })
        .collect();
    let fields: BTreeSet<i32> = Field::VALUES.iter().map(Enum::value).filter(|f| *f != 0).collect();
    assert_eq!(adjustable, fields);
}

#[test]
fn every_field_of_an_update_is_merged_and_owned_or_told() {
    let id = PluginId::from_file_name(PLUGIN).unwrap();
    for path in paths::<LinuxResources>() {
        let resources: LinuxResources = only(&path);
        let mut asked = ContainerUpdate { container_id: "c".to_owned(), ..Default::default() };
        asked.linux.mut_or_insert_default().resources = Some(resources).into();
        let mut merge = UpdatesMerge::new();
        merge.reply(&id, vec![asked.clone()]).unwrap();
        let outcome = merge.finish();
        if NOT_IN_UPDATES.contains(&path.as_str()) {
            assert_eq!(outcome.ignored.len(), 1, "{path}");
            continue;
        }
        assert_eq!(outcome.updates, [asked], "{path}");
        assert_eq!(outcome.ignored, [], "{path}");
        let adjusted = format!("linux.resources.{path}");
        let expected = HANDLED.iter().find_map(|(path, claim)| match claim {
            Of(field) if *path == adjusted => Some((field.value(), PLUGIN.to_owned())),
            _ => None,
        });
        assert_eq!(claims(&outcome.owners, "c"), expected.into_iter().collect(), "{path}");
    }
}

/// Fields and owners of a container; keys must be the one that [`value`] gives.
fn claims(owners: &OwningPlugins, container: &str) -> BTreeSet<(i32, String)> {
    let fields = owners.owners.get(container).cloned().unwrap_or_default();
    let compound = fields.compound.iter().flat_map(|(field, keys)| {
        keys.owners.iter().map(|(key, owner)| {
            assert_eq!(key, KEY, "{owners}");
            (*field, owner.clone())
        })
    });
    fields.simple.iter().map(|(field, owner)| (*field, owner.clone())).chain(compound).collect()
}

/// Paths of all fields that can be set on their own.
fn paths<M: MessageFull>() -> BTreeSet<String> {
    fn walk(message: &protobuf::reflect::MessageDescriptor, prefix: &str, found: &mut BTreeSet<String>) {
        for field in message.fields() {
            let path = format!("{prefix}{}", field.name());
            match group(&field) {
                Some(inner) => walk(&inner, &format!("{path}."), found),
                None => assert!(found.insert(path)),
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(&M::descriptor(), "", &mut found);
    found
}

fn group(field: &FieldDescriptor) -> Option<protobuf::reflect::MessageDescriptor> {
    match field.runtime_field_type() {
        RuntimeFieldType::Singular(RuntimeType::Message(inner)) if GROUPS.contains(&inner.name()) => {
            Some(inner)
        }
        _ => None,
    }
}

/// A message with only the field at `path` set.
fn only<M: MessageFull>(path: &str) -> M {
    let mut message = M::new();
    set(&mut message, path);
    message
}

fn set(message: &mut dyn MessageDyn, path: &str) {
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let field = message.descriptor_dyn().field_by_name(name).unwrap();
    if let Some(rest) = rest {
        return set(&mut *field.mut_message(message), rest);
    }
    match field.runtime_field_type() {
        RuntimeFieldType::Singular(kind) => field.set_singular_field(message, value(&kind)),
        RuntimeFieldType::Repeated(kind) => field.mut_repeated(message).push(value(&kind)),
        RuntimeFieldType::Map(key, kind) => field.mut_map(message).insert(value(&key), value(&kind)),
    }
}

/// A value that is not the default; messages have all their fields set.
fn value(kind: &RuntimeType) -> ReflectValueBox {
    match kind {
        RuntimeType::I32 => ReflectValueBox::I32(7),
        RuntimeType::I64 => ReflectValueBox::I64(7),
        RuntimeType::U32 => ReflectValueBox::U32(7),
        RuntimeType::U64 => ReflectValueBox::U64(7),
        RuntimeType::Bool => ReflectValueBox::Bool(true),
        RuntimeType::String => ReflectValueBox::String(KEY.to_owned()),
        RuntimeType::Enum(kind) => ReflectValueBox::Enum(kind.clone(), 1),
        RuntimeType::Message(kind) => {
            let mut message = kind.new_instance();
            let names: Vec<String> = kind.fields().map(|f| f.name().to_owned()).collect();
            names.iter().for_each(|name| set(&mut *message, name));
            ReflectValueBox::Message(message)
        }
        other => panic!("no value of type {other:?}"),
    }
}
