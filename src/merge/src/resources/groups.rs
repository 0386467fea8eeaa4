//! Table of the groups of `LinuxResources`, which adjustments and updates share, in the order in
//! which conflicts are found.

use crate::error::MergeError;
use crate::merged::Merged;
use crate::owners::Claims;
use crate::resources::{hugepages, unified};
use nri_api::proto::{ContainerAdjustment, LinuxResources};
use nri_api::{RESOURCE_FIELDS, ResourceField};

/// One group: its claims, and the change that they permit.
struct Group {
    claim: fn(&LinuxResources, &mut Claims<'_>) -> Result<(), MergeError>,
    apply: fn(&LinuxResources, &mut LinuxResources),
}

/// The fields of a controller, each with one value and a separate owner. A class has no controller:
/// it is all of `blockIO`, or in no part of the resources.
macro_rules! values {
    ($controller:expr) => {
        Group {
            claim: |requested, claims| {
                let set = values($controller).filter(|field| field.is_set(requested));
                set.filter_map(|field| field.owner).try_for_each(|owner| claims.claim_field(owner))
            },
            apply: |requested, into| {
                values($controller).for_each(|field| field.copy(requested, into));
            },
        }
    };
}

fn values(controller: Option<&'static str>) -> impl Iterator<Item = &'static ResourceField> {
    RESOURCE_FIELDS.iter().filter(move |field| field.path.first().copied() == controller)
}

const GROUPS: &[Group] = &[
    values!(Some("memory")),
    values!(Some("cpu")),
    Group { claim: hugepages::claim, apply: hugepages::apply },
    Group { claim: unified::claim, apply: unified::apply },
    values!(Some("blockIO")),
    values!(None),
    values!(Some("pids")),
];

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
