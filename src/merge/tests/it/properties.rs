//! Properties that hold for any merge.

use crate::cases::{CONTAINER, message, plugin};
use nri_api::proto::{
    Container, ContainerAdjustment, CreateContainerResponse, Field, OwningPlugins,
};
use nri_api::{Marked, PluginId};
use nri_merge::{CreateMerge, CreateOutcome, MergeError};
use proptest::collection::vec;
use proptest::prelude::*;
use protobuf::Enum;
use serde_json::{Map, Value};
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

    /// Returns a reply with this value only, as protojson.
    fn json(&self) -> String {
        let v = self.value;
        let k = format!("{}{}", if self.remove { "-" } else { "" }, self.key);
        let linux = |inner: String| format!(r#"{{"linux": {{{inner}}}}}"#);
        let resources = |inner: String| linux(format!(r#""resources": {{{inner}}}"#));
        let memory = |name| resources(format!(r#""memory": {{"{name}": {{"value": {v}}}}}"#));
        let flag = |name| {
            resources(format!(r#""memory": {{"{name}": {{"value": {}}}}}"#, v.is_multiple_of(2)))
        };
        let cpu = |name| resources(format!(r#""cpu": {{"{name}": {{"value": {v}}}}}"#));
        match self.field {
            Field::None => "{}".to_owned(),
            Field::OciHooks => format!(r#"{{"hooks": {{"prestart": [{{"path": "{v}"}}]}}}}"#),
            Field::Annotations => format!(r#"{{"annotations": {{"{k}": "{v}"}}}}"#),
            Field::Mounts => {
                format!(r#"{{"mounts": [{{"destination": "{k}", "source": "{v}"}}]}}"#)
            }
            Field::Env => format!(r#"{{"env": [{{"key": "{k}", "value": "{v}"}}]}}"#),
            Field::Args => format!(r#"{{"args": ["{v}"]}}"#),
            Field::Rlimits => format!(r#"{{"rlimits": [{{"type": "{k}", "hard": {v}}}]}}"#),
            Field::CdiDevices => format!(r#"{{"CDIDevices": [{{"name": "{k}"}}]}}"#),
            Field::Devices => linux(format!(r#""devices": [{{"path": "{k}", "major": {v}}}]"#)),
            Field::Namespace => {
                linux(format!(r#""namespaces": [{{"type": "{k}", "path": "{v}"}}]"#))
            }
            Field::Sysctl => linux(format!(r#""sysctl": {{"{k}": "{v}"}}"#)),
            Field::LinuxNetDevices => {
                linux(format!(r#""netDevices": {{"{k}": {{"name": "{v}"}}}}"#))
            }
            Field::CgroupsPath => linux(format!(r#""cgroupsPath": "{v}""#)),
            Field::OomScoreAdj => linux(format!(r#""oomScoreAdj": {{"value": {v}}}"#)),
            Field::IoPriority => linux(format!(r#""ioPriority": {{"priority": {v}}}"#)),
            Field::SeccompPolicy => {
                linux(format!(r#""seccompPolicy": {{"defaultAction": "{v}"}}"#))
            }
            Field::LinuxSched => linux(format!(r#""scheduler": {{"nice": {v}}}"#)),
            Field::MemoryPolicy => linux(format!(r#""memoryPolicy": {{"nodes": "{v}"}}"#)),
            Field::RdtClosID => linux(format!(r#""rdt": {{"closId": {{"value": "{v}"}}}}"#)),
            Field::RdtSchemata => linux(format!(r#""rdt": {{"schemata": {{"value": ["{v}"]}}}}"#)),
            Field::RdtEnableMonitoring => linux(r#""rdt": {"enableMonitoring": {}}"#.to_owned()),
            Field::MemLimit => memory("limit"),
            Field::MemReservation => memory("reservation"),
            Field::MemSwapLimit => memory("swap"),
            Field::MemKernelLimit => memory("kernel"),
            Field::MemTCPLimit => memory("kernelTcp"),
            Field::MemSwappiness => memory("swappiness"),
            Field::MemDisableOomKiller => flag("disableOomKiller"),
            Field::MemUseHierarchy => flag("useHierarchy"),
            Field::CPUShares => cpu("shares"),
            Field::CPUQuota => cpu("quota"),
            Field::CPUPeriod => cpu("period"),
            Field::CPURealtimeRuntime => cpu("realtimeRuntime"),
            Field::CPURealtimePeriod => cpu("realtimePeriod"),
            Field::CPUSetCPUs => resources(format!(r#""cpu": {{"cpus": "{v}"}}"#)),
            Field::CPUSetMems => resources(format!(r#""cpu": {{"mems": "{v}"}}"#)),
            Field::PidsLimit => resources(format!(r#""pids": {{"limit": {v}}}"#)),
            Field::HugepageLimits => {
                resources(format!(r#""hugepageLimits": [{{"pageSize": "{k}", "limit": {v}}}]"#))
            }
            Field::BlockioClass => resources(format!(r#""blockioClass": {{"value": "{v}"}}"#)),
            Field::RdtClass => resources(format!(r#""rdtClass": {{"value": "{v}"}}"#)),
            Field::CgroupsUnified => resources(format!(r#""unified": {{"{k}": "{v}"}}"#)),
        }
    }
}

/// Returns a reply with all `atoms`. The atoms are joined as JSON, since rust-protobuf replaces
/// submessages instead of merging them.
fn reply(atoms: &[Atom]) -> CreateContainerResponse {
    let mut all = Value::Object(Map::new());
    for atom in atoms {
        join(&mut all, serde_json::from_str(&atom.json()).unwrap());
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
    let (linux, resources) = (&adjust.linux, &adjust.linux.resources);
    let (memory, cpu) = (&resources.memory, &resources.cpu);
    let mut claimed = BTreeSet::new();
    let mut put = |field: Field, key: &str| {
        assert!(
            claimed.insert((field.value(), key.to_owned())),
            "{field:?} {key} twice in {adjust}"
        );
    };
    for (field, keys) in [
        (Field::Annotations, adjust.annotations.keys().map(String::as_str).collect::<Vec<_>>()),
        (Field::Mounts, adjust.mounts.iter().map(|m| m.destination.as_str()).collect()),
        (Field::Env, adjust.env.iter().map(|e| e.key.as_str()).collect()),
        (Field::Devices, linux.devices.iter().map(|d| d.path.as_str()).collect()),
        (Field::Sysctl, linux.sysctl.keys().map(String::as_str).collect()),
        (Field::LinuxNetDevices, linux.net_devices.keys().map(String::as_str).collect()),
    ] {
        let mut seen = BTreeSet::new();
        for marked in keys.into_iter().map(Marked::parse) {
            assert!(seen.insert(marked.key()), "{field:?} {marked:?} twice in {adjust}");
            if let Marked::Set(key) = marked {
                put(field, key);
            }
        }
    }
    linux.namespaces.iter().for_each(|n| put(Field::Namespace, Marked::parse(&n.type_).key()));
    adjust.rlimits.iter().for_each(|l| put(Field::Rlimits, &l.type_));
    adjust.CDI_devices.iter().for_each(|d| put(Field::CdiDevices, &d.name));
    resources.hugepage_limits.iter().for_each(|l| put(Field::HugepageLimits, &l.page_size));
    resources.unified.keys().for_each(|k| put(Field::CgroupsUnified, k));
    for (present, field) in [
        (!adjust.args.is_empty(), Field::Args),
        (!linux.cgroups_path.is_empty(), Field::CgroupsPath),
        (linux.oom_score_adj.is_some(), Field::OomScoreAdj),
        (linux.io_priority.is_some(), Field::IoPriority),
        (linux.seccomp_policy.is_some(), Field::SeccompPolicy),
        (linux.scheduler.is_some(), Field::LinuxSched),
        (linux.memory_policy.is_some(), Field::MemoryPolicy),
        (linux.rdt.clos_id.is_some(), Field::RdtClosID),
        (linux.rdt.schemata.is_some(), Field::RdtSchemata),
        (linux.rdt.enable_monitoring.is_some(), Field::RdtEnableMonitoring),
        (memory.limit.is_some(), Field::MemLimit),
        (memory.reservation.is_some(), Field::MemReservation),
        (memory.swap.is_some(), Field::MemSwapLimit),
        (memory.kernel.is_some(), Field::MemKernelLimit),
        (memory.kernel_tcp.is_some(), Field::MemTCPLimit),
        (memory.swappiness.is_some(), Field::MemSwappiness),
        (memory.disable_oom_killer.is_some(), Field::MemDisableOomKiller),
        (memory.use_hierarchy.is_some(), Field::MemUseHierarchy),
        (cpu.shares.is_some(), Field::CPUShares),
        (cpu.quota.is_some(), Field::CPUQuota),
        (cpu.period.is_some(), Field::CPUPeriod),
        (cpu.realtime_runtime.is_some(), Field::CPURealtimeRuntime),
        (cpu.realtime_period.is_some(), Field::CPURealtimePeriod),
        (!cpu.cpus.is_empty(), Field::CPUSetCPUs),
        (!cpu.mems.is_empty(), Field::CPUSetMems),
        (resources.pids.is_some(), Field::PidsLimit),
        (resources.blockio_class.is_some(), Field::BlockioClass),
        (resources.rdt_class.is_some(), Field::RdtClass),
    ] {
        if present {
            put(field, "");
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
