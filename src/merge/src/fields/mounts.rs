//! Mounts, owned by destination. Destinations are compared as text, as in upstream NRI: `/data` and
//! `/data/` differ.

use crate::error::MergeError;
use crate::marked::{Keys, removal};
use crate::merged::Merged;
use crate::owners::Claims;
use nri_api::Marked;
use nri_api::proto::{ContainerAdjustment, Field, Mount};

pub(crate) fn claim(
    requested: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    keys(requested).claim(Field::Mounts, claims)
}

pub(crate) fn apply(requested: &ContainerAdjustment, merged: &mut Merged) {
    let keys = keys(requested);
    merged.container.mounts.retain(|m| !keys.changes(&m.destination));
    merged.adjust.mounts.retain(|m| !keys.changes_key_of(&m.destination));
    for destination in &keys.removed {
        merged
            .adjust
            .mounts
            .push(Mount { destination: removal(destination), ..Default::default() });
    }
    for mount in
        requested.mounts.iter().filter(|m| matches!(Marked::parse(&m.destination), Marked::Set(_)))
    {
        merged.container.mounts.push(mount.clone());
        merged.adjust.mounts.push(mount.clone());
    }
}

fn keys(requested: &ContainerAdjustment) -> Keys<'_> {
    Keys::of_list(requested.mounts.iter().map(|m| m.destination.as_str()))
}
