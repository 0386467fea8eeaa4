//! Table of the groups of `LinuxResources`, which adjustments and updates share, in the order in
//! which conflicts are found.

use crate::error::MergeError;
use crate::merged::Merged;
use crate::owners::Claims;
use crate::resources::{blockio, cpu, hugepages, memory, pids, rdt_class, unified};
use nri_api::proto::{ContainerAdjustment, LinuxResources};

/// One group: its claims, and the change that they permit.
struct Group {
    claim: fn(&LinuxResources, &mut Claims<'_>) -> Result<(), MergeError>,
    apply: fn(&LinuxResources, &mut LinuxResources),
}

macro_rules! groups {
    ($($module:ident),* $(,)?) => {
        &[$(Group { claim: $module::claim, apply: $module::apply }),*]
    };
}

const GROUPS: &[Group] = groups![memory, cpu, hugepages, unified, blockio, rdt_class, pids];

/// Claims everything that `requested` sets.
pub(crate) fn claim_all(
    requested: &LinuxResources,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    GROUPS.iter().try_for_each(|group| (group.claim)(requested, claims))
}

/// Copies to `into` everything that `requested` sets.
pub(crate) fn apply_all(requested: &LinuxResources, into: &mut LinuxResources) {
    GROUPS.iter().for_each(|group| (group.apply)(requested, into));
}

/// Adds another update of the same reply to `into`. The claims of both updates succeeded, so they
/// have no page size in common, and the limits can be appended without a lookup.
pub(crate) fn join(mut requested: LinuxResources, into: &mut LinuxResources) {
    into.hugepage_limits.append(&mut requested.hugepage_limits);
    apply_all(&requested, into);
}

pub(crate) fn claim(
    requested: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    claim_all(&requested.linux.resources, claims)
}

pub(crate) fn apply(requested: &ContainerAdjustment, merged: &mut Merged) {
    let mut change = LinuxResources::new();
    apply_all(&requested.linux.resources, &mut change);
    if change != LinuxResources::default() {
        let (container, adjust) = merged.linux();
        apply_all(&change, container.resources.mut_or_insert_default());
        apply_all(&change, adjust.resources.mut_or_insert_default());
    }
}
