//! Mounts, owned by destination. Destinations are compared as text, as upstream does: `/data` and
//! `/data/` are two.

use crate::marked::{Keys, removal};
use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use nri_api::Marked;
use nri_api::proto::{ContainerAdjustment, Field, Mount};

pub(crate) fn claim(
    asked: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    keys(asked).claim(Field::Mounts, claims)
}

pub(crate) fn apply(asked: &ContainerAdjustment, merged: &mut Merged) {
    let keys = keys(asked);
    merged.container.mounts.retain(|m| !keys.touch(&m.destination));
    merged.adjust.mounts.retain(|m| !keys.touch_marked(&m.destination));
    for destination in &keys.removed {
        merged
            .adjust
            .mounts
            .push(Mount { destination: removal(destination), ..Default::default() });
    }
    for mount in
        asked.mounts.iter().filter(|m| matches!(Marked::parse(&m.destination), Marked::Set(_)))
    {
        merged.container.mounts.push(mount.clone());
        merged.adjust.mounts.push(mount.clone());
    }
}

fn keys(asked: &ContainerAdjustment) -> Keys<'_> {
    Keys::of_list(asked.mounts.iter().map(|m| m.destination.as_str()))
}
