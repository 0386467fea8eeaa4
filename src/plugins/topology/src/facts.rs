//! What NRI says of a container, as the policy sees it.

use crate::{
    cgroup::place,
    existing::Assigned,
    hardware::cpuset::CpuSet,
    placed::{Assignment, Kind},
    subject::Subject,
};
use nri_plugin::{
    Adjustment,
    proto::{Container, LinuxResources, PodSandbox},
};
use std::collections::{BTreeMap, HashMap};

/// Annotation of the plugin: whose CPUs a container got at its creation.
pub const KIND_KEY: &str = "nri-topology/assigned";

/// Annotation of the plugin: the class of a container at its creation.
pub const ASSIGNED_CLASS_KEY: &str = "nri-topology/assigned-class";

/// Annotation of the plugin: how many exclusive CPUs a container wanted.
pub const ASSIGNED_COUNT_KEY: &str = "nri-topology/assigned-count";

/// Annotation of the plugin: that a container is idle, and may use exclusive CPUs of others.
pub const ASSIGNED_IDLE_KEY: &str = "nri-topology/assigned-idle";

/// Annotation of the plugin: why a container has not what it wants.
pub const REASON_KEY: &str = "nri-topology/reason";

/// Annotation of the plugin: the CPUs that the engine has set for a container, of which it may have
/// fewer.
pub const ASSIGNED_CPUSET_KEY: &str = "nri-topology/assigned-cpuset";

/// Name by which `nrid` introduces itself. Only there, containers cannot set annotations whose
/// prefix is that of facts.
const NRID: &str = "nri-container-runtime";

/// Annotation of `nrid`: which annotations plugins have set, as a JSON object of plugins by keys.
const SET_BY_PLUGINS: &str = "facts.nri-container-runtime/set-by-plugins";

/// Annotation of `nrid`: which resource fields plugins have set last, as a JSON object of plugins
/// by fields. What an engine has set since is not there.
const RESOURCES_SET_BY_PLUGINS: &str = "facts.nri-container-runtime/resources-set-by-plugins";

/// Annotation of `nrid`: the engine of a container, if the configuration wants it.
const ENGINE: &str = "facts.nri-container-runtime/engine";

/// Name of the field of the CPUs of a container.
const CPUS_FIELD: &str = "cpu.cpus";

/// Period of CPU quotas if none is set, in microseconds.
const DEFAULT_PERIOD: u64 = 100_000;

/// Whether a runtime with this name is `nrid`.
pub fn is_nrid(runtime: &str) -> bool {
    runtime == NRID
}

/// Describes a container with these resources, in a runtime with this name.
pub fn subject(
    runtime: &str,
    pod: &PodSandbox,
    container: &Container,
    resources: &LinuxResources,
) -> Subject {
    let joined = |of_pod: &HashMap<String, String>, own: &HashMap<String, String>| {
        let all = of_pod.iter().chain(own);
        all.map(|(key, value)| (key.clone(), value.clone())).collect::<BTreeMap<_, _>>()
    };
    let cpu = &resources.cpu;
    let quota = cpu.quota.as_ref().map_or(0, |quota| quota.value);
    let period = cpu.period.as_ref().map_or(DEFAULT_PERIOD, |period| period.value);
    let limit = resources.memory.limit.as_ref().map_or(0, |limit| limit.value);
    let milli = match u64::try_from(quota) {
        Ok(quota) if period > 0 => quota.saturating_mul(1000) / period,
        _ => 0,
    };
    Subject {
        name: container.name.clone(),
        image: container.image.name.clone(),
        pod: pod.name.clone(),
        namespace: pod.namespace.clone(),
        engine: match runtime {
            NRID => container.annotations.get(ENGINE).cloned(),
            "" => None,
            engine => Some(engine.to_owned()),
        },
        labels: joined(&pod.labels, &container.labels),
        annotations: joined(&pod.annotations, &container.annotations),
        milli_cpus: milli,
        memory_limit: u64::try_from(limit).ok().filter(|limit| *limit > 0),
        pinned: None,
        cgroup: place(&container.linux.cgroups_path, &container.id).of_existing(),
    }
}

/// Returns the CPUs and memory nodes that a container has. Lists that cannot be read are not set.
pub fn assignment(resources: &LinuxResources) -> Assignment {
    let read = |list: &str| list.parse::<CpuSet>().unwrap_or_default();
    Assignment { cpus: read(&resources.cpu.cpus), nodes: read(&resources.cpu.mems) }
}

/// Returns what the plugin, which has this name, has assigned to a container at its creation.
/// Whoever creates a container while the plugin is not connected can write the same annotations,
/// and so can other plugins at any time, which may have no right to set CPUs. `nrid` knows which
/// plugin has set which ones, and others do not count there; another runtime does not know it, nor
/// does an earlier `nrid`.
pub fn assigned(runtime: &str, name: &str, container: &Container) -> Option<Assigned> {
    let annotations = &container.annotations;
    let plugins_by = |fact: &str| {
        let json = annotations.get(fact).filter(|_| runtime == NRID)?;
        Some(serde_json::from_str::<BTreeMap<String, String>>(json).unwrap_or_default())
    };
    let set_by_plugins = plugins_by(SET_BY_PLUGINS);
    let resources = plugins_by(RESOURCES_SET_BY_PLUGINS);
    // The plugin may have had another index.
    let is_own = |plugin: &String| plugin.split_once('-').is_some_and(|(_, of)| of == name);
    let is_set = |key: &str| {
        set_by_plugins.as_ref().is_none_or(|plugins| plugins.get(key).is_some_and(is_own))
    };
    let get = |key: &str| annotations.get(key).filter(|_| is_set(key));
    let kind = match get(KIND_KEY)?.as_str() {
        "exclusive" => Kind::Exclusive,
        "shared" => Kind::Shared,
        "pinned" => Kind::Pinned,
        "unmanaged" => Kind::Unmanaged,
        _ => return None,
    };
    Some(Assigned {
        kind,
        class: get(ASSIGNED_CLASS_KEY)?.clone(),
        cpuset: get(ASSIGNED_CPUSET_KEY).and_then(|list| list.parse().ok()),
        count: get(ASSIGNED_COUNT_KEY).and_then(|count| count.parse().ok()),
        reason: get(REASON_KEY).cloned(),
        borrows: get(ASSIGNED_IDLE_KEY).is_some_and(|idle| idle == "true"),
        has_own: resources.is_none_or(|plugins| plugins.get(CPUS_FIELD).is_some_and(is_own)),
        is_proven: set_by_plugins.is_some(),
    })
}

/// Writes into annotations what a container gets at its creation. What the container says there of
/// itself has no meaning.
pub(crate) fn annotate(
    adjustment: &mut Adjustment,
    assigned: &Assigned,
    present: &HashMap<String, String>,
) {
    let entries = [
        (KIND_KEY, Some(word(assigned.kind).to_owned())),
        (ASSIGNED_CLASS_KEY, Some(assigned.class.clone())),
        (ASSIGNED_CPUSET_KEY, assigned.cpuset.as_ref().map(CpuSet::to_string)),
        (ASSIGNED_COUNT_KEY, assigned.count.map(|count| count.to_string())),
        (ASSIGNED_IDLE_KEY, assigned.borrows.then(|| "true".to_owned())),
        (REASON_KEY, assigned.reason.clone()),
    ];
    for (key, value) in entries {
        match value {
            Some(value) => _ = adjustment.override_annotation(key, value),
            None if present.contains_key(key) => _ = adjustment.remove_annotation(key),
            None => {}
        }
    }
}

/// Returns the word for a kind in annotations and in the status.
pub fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Exclusive => "exclusive",
        Kind::Shared => "shared",
        Kind::Pinned => "pinned",
        Kind::Unmanaged => "unmanaged",
    }
}
