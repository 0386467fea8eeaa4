//! What a creation is merged into, and the flat list of the groups that do it.
//!
//! A reply is taken in two steps: all groups claim, in the stated order, and only if all may, all
//! set; setting cannot fail. A new field of the protocol is a row of [`GROUPS`] (or of `resources`)
//! and a file of its own.

use crate::MergeError;
use crate::owners::Claims;
use crate::{
    annotations, args, cdi, cgroups_path, device_rules, devices, env, hooks, io_priority,
    memory_policy,
};
use crate::{
    mounts, namespaces, net_devices, oom_score_adj, rdt, resources, rlimits, scheduler, seccomp,
    sysctl,
};
use nri_api::proto::{Container, ContainerAdjustment, LinuxContainer, LinuxContainerAdjustment};

/// The container as given and as adjusted so far, and the adjustment itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Merged {
    pub(crate) pristine: Container,
    pub(crate) container: Container,
    pub(crate) adjust: ContainerAdjustment,
}

struct Group {
    claim: fn(&ContainerAdjustment, &mut Claims<'_>) -> Result<(), MergeError>,
    apply: fn(&ContainerAdjustment, &mut Merged),
}

macro_rules! groups {
    ($($module:ident),* $(,)?) => { &[$(Group { claim: $module::claim, apply: $module::apply }),*] };
}

/// In the order in which conflicts are found.
const GROUPS: &[Group] = groups![
    annotations,
    mounts,
    env,
    args,
    hooks,
    devices,
    resources,
    device_rules,
    cgroups_path,
    oom_score_adj,
    io_priority,
    seccomp,
    namespaces,
    sysctl,
    net_devices,
    scheduler,
    rdt,
    memory_policy,
    rlimits,
    cdi,
];

impl Merged {
    pub(crate) fn new(container: Container) -> Self {
        Self { pristine: container.clone(), container, adjust: ContainerAdjustment::new() }
    }

    /// The Linux parts of the container and of the adjustment.
    pub(crate) fn linux(&mut self) -> (&mut LinuxContainer, &mut LinuxContainerAdjustment) {
        (self.container.linux.mut_or_insert_default(), self.adjust.linux.mut_or_insert_default())
    }

    /// Sets all that `asked` sets. It must have been claimed.
    pub(crate) fn apply(&mut self, asked: &ContainerAdjustment) {
        GROUPS.iter().for_each(|group| (group.apply)(asked, self));
    }
}

/// Claims all that `asked` sets.
pub(crate) fn claim_all(
    asked: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    GROUPS.iter().try_for_each(|group| (group.claim)(asked, claims))
}
