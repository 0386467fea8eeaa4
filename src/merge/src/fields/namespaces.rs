//! Namespaces, owned by type. Unlike other removals, the removal of a namespace is a claim.

use crate::error::MergeError;
use crate::merged::Merged;
use crate::named::replace_or_push;
use crate::owners::Claims;
use nri_api::Marked;
use nri_api::proto::{ContainerAdjustment, Field};
use std::collections::HashSet;

pub(crate) fn claim(
    requested: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    requested
        .linux
        .namespaces
        .iter()
        .try_for_each(|n| claims.claim_key(Field::Namespace, Marked::parse(&n.type_).key()))
}

pub(crate) fn apply(requested: &ContainerAdjustment, merged: &mut Merged) {
    let requested = &requested.linux.namespaces;
    if requested.is_empty() {
        return;
    }
    let (container, adjust) = merged.linux();
    let (mut set, mut removed) = (Vec::new(), HashSet::new());
    for namespace in requested {
        match Marked::parse(&namespace.type_) {
            Marked::Set(_) => set.push(namespace.clone()),
            Marked::Remove(kind) => drop(removed.insert(kind)),
        }
    }
    // Removing a type is a claim, as setting it is, so no type is both set and removed.
    container.namespaces.retain(|n| !removed.contains(&*n.type_));
    replace_or_push(&mut container.namespaces, &set, |n| &n.type_);
    adjust.namespaces.extend_from_slice(requested);
}
