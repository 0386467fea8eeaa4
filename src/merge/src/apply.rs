//! Table of the groups of adjustable fields, in the order in which conflicts are found.
//!
//! A reply is merged in two steps: all groups claim; then, if every claim succeeded, all groups
//! apply, which cannot fail. A new group of fields needs a file and a row in [`GROUPS`], or in the
//! table of resource groups ([`crate::resources::groups`]).

use crate::error::MergeError;
use crate::fields::{
    annotations, args, cdi, cgroups_path, devices, env, hooks, io_priority, memory_policy, mounts,
    namespaces, net_devices, oom_score_adj, rdt, rlimits, scheduler, seccomp, sysctl,
};
use crate::merged::Merged;
use crate::owners::Claims;
use crate::resources::{device_rules, groups as resources};
use nri_api::proto::ContainerAdjustment;

/// One group: its claims, and the change that they permit.
struct Group {
    claim: fn(&ContainerAdjustment, &mut Claims<'_>) -> Result<(), MergeError>,
    apply: fn(&ContainerAdjustment, &mut Merged),
}

macro_rules! groups {
    ($($module:ident),* $(,)?) => {
        &[$(Group { claim: $module::claim, apply: $module::apply }),*]
    };
}

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

/// Claims every field and key that `requested` sets.
pub(crate) fn claim_all(
    requested: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    GROUPS.iter().try_for_each(|group| (group.claim)(requested, claims))
}

/// Copies everything that `requested` sets to `merged`. [`claim_all`] must have succeeded for the
/// same reply.
pub(crate) fn apply_all(requested: &ContainerAdjustment, merged: &mut Merged) {
    GROUPS.iter().for_each(|group| (group.apply)(requested, merged));
}
