//! The groups of `LinuxResources`, which adjustments and updates share, as one flat list.

use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use crate::{blockio, cpu, hugepages, memory, pids, rdt_class, unified};
use nri_api::proto::{ContainerAdjustment, LinuxResources};

/// One group: who may, and then the setting, which cannot fail.
struct Group {
    claim: fn(&LinuxResources, &mut Claims<'_>) -> Result<(), MergeError>,
    apply: fn(&LinuxResources, &mut LinuxResources),
}

macro_rules! groups {
    ($($module:ident),* $(,)?) => { &[$(Group { claim: $module::claim, apply: $module::apply }),*] };
}

/// In the order in which conflicts are found.
const GROUPS: &[Group] = groups![memory, cpu, hugepages, unified, blockio, rdt_class, pids];

/// Claims all that `asked` sets.
pub(crate) fn claim_all(asked: &LinuxResources, claims: &mut Claims<'_>) -> Result<(), MergeError> {
    GROUPS.iter().try_for_each(|group| (group.claim)(asked, claims))
}

/// Sets in `into` all that `asked` sets.
pub(crate) fn apply_all(asked: &LinuxResources, into: &mut LinuxResources) {
    GROUPS.iter().for_each(|group| (group.apply)(asked, into));
}

/// Adds to `into` what another update of the same reply sets. Their claims tell page sizes apart,
/// so that none has to be looked for.
pub(crate) fn join(mut asked: LinuxResources, into: &mut LinuxResources) {
    into.hugepage_limits.append(&mut asked.hugepage_limits);
    apply_all(&asked, into);
}

pub(crate) fn claim(
    asked: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    claim_all(&asked.linux.resources, claims)
}

pub(crate) fn apply(asked: &ContainerAdjustment, merged: &mut Merged) {
    let mut change = LinuxResources::new();
    apply_all(&asked.linux.resources, &mut change);
    if change != LinuxResources::default() {
        let (container, adjust) = merged.linux();
        apply_all(&change, container.resources.mut_or_insert_default());
        apply_all(&change, adjust.resources.mut_or_insert_default());
    }
}
