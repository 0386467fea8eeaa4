//! What NRI says of a container, as the policy sees it.

use crate::{
    cpuset::CpuSet,
    placed::{Assignment, Kind},
    request::Subject,
};
use nri_plugin::proto::{Container, LinuxResources, PodSandbox};
use std::collections::{BTreeMap, HashMap};

/// Annotation of the plugin: whose CPUs a container got at its creation.
pub const KIND_KEY: &str = "nri-topology/assigned";

/// Annotation of the plugin: the class of a container at its creation.
pub const ASSIGNED_CLASS_KEY: &str = "nri-topology/assigned-class";

/// Annotation of the plugin: why a container has not what it wants.
pub const REASON_KEY: &str = "nri-topology/reason";

/// Period of CPU quotas if none is set, in microseconds.
const DEFAULT_PERIOD: u64 = 100_000;

/// Describes a container with these resources.
pub fn subject(pod: &PodSandbox, container: &Container, resources: &LinuxResources) -> Subject {
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
        labels: joined(&pod.labels, &container.labels),
        annotations: joined(&pod.annotations, &container.annotations),
        milli_cpus: milli,
        memory_limit: u64::try_from(limit).ok().filter(|limit| *limit > 0),
        pinned: None,
    }
}

/// Returns the CPUs and memory nodes that a container has. Lists that cannot be read are not set.
pub fn assignment(resources: &LinuxResources) -> Assignment {
    let read = |list: &str| list.parse::<CpuSet>().unwrap_or_default();
    Assignment { cpus: read(&resources.cpu.cpus), nodes: read(&resources.cpu.mems) }
}

/// Returns what the plugin has assigned to a container at its creation: whose CPUs, and its class.
pub fn assigned(container: &Container) -> Option<(Kind, String)> {
    let kind = match container.annotations.get(KIND_KEY)?.as_str() {
        "exclusive" => Kind::Exclusive,
        "shared" => Kind::Shared,
        "pinned" => Kind::Pinned,
        "unmanaged" => Kind::Unmanaged,
        _ => return None,
    };
    Some((kind, container.annotations.get(ASSIGNED_CLASS_KEY)?.clone()))
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
