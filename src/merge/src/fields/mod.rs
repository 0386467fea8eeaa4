//! Groups of adjustable fields: a file for each whose entries have keys or rules of their own, and
//! a row of [`GROUPS`] for each that has one value. Resources are in [`crate::resources`].
//!
//! Each file has two functions: `claim` claims the values that a reply sets, and may find a
//! conflict; `apply` sets them, and cannot fail. A reply is merged in two steps: all groups claim;
//! then, if every claim succeeded, all groups apply.

mod annotations;
mod args;
mod cdi;
mod devices;
mod env;
mod hooks;
mod mounts;
mod namespaces;
mod net_devices;
mod rdt;
mod rlimits;
mod sysctl;

use crate::error::MergeError;
use crate::merged::Merged;
use crate::owners::Claims;
use crate::resources::{device_rules, groups as resources};
use nri_api::proto::{ContainerAdjustment, Field};

/// One group: its claims, and the change that they permit.
struct Group {
    claim: fn(&ContainerAdjustment, &mut Claims<'_>) -> Result<(), MergeError>,
    apply: fn(&ContainerAdjustment, &mut Merged),
}

macro_rules! group {
    ($module:ident) => {
        Group { claim: $module::claim, apply: $module::apply }
    };
}

/// A field of `linux` with one value. It is set unless it is empty, and owned as a whole. If the
/// message of a container has the field, too, later plugins see it there.
macro_rules! value {
    ($field:ident: $owner:ident $(=> $container:ident)?) => {
        Group {
            claim: |requested, claims| {
                claims.claim_fields([(is_set(&requested.linux.$field), Field::$owner)])
            },
            apply: |requested, merged| {
                let value = &requested.linux.$field;
                if is_set(value) {
                    $(merged.$container.linux.mut_or_insert_default().$field.clone_from(value);)?
                    merged.adjust.linux.mut_or_insert_default().$field.clone_from(value);
                }
            },
        }
    };
}

fn is_set<T: Default + PartialEq>(value: &T) -> bool {
    *value != T::default()
}

/// All groups, in the order in which conflicts are found.
const GROUPS: &[Group] = &[
    group!(annotations),
    group!(mounts),
    group!(env),
    group!(args),
    group!(hooks),
    group!(devices),
    group!(resources),
    group!(device_rules),
    value!(cgroups_path: CgroupsPath => container),
    value!(oom_score_adj: OomScoreAdj => container),
    value!(io_priority: IoPriority => container),
    value!(seccomp_policy: SeccompPolicy => container),
    group!(namespaces),
    group!(sysctl),
    group!(net_devices),
    value!(scheduler: LinuxSched => container),
    group!(rdt),
    value!(memory_policy: MemoryPolicy),
    group!(rlimits),
    group!(cdi),
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
