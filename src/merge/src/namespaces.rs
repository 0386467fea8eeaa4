//! Namespaces, owned by type. Unlike with other keys, a removal is a claim too.

use crate::named::replace_or_push;
use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use nri_api::Marked;
use nri_api::proto::{ContainerAdjustment, Field};
use std::collections::HashSet;

pub(crate) fn claim(
    asked: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    asked
        .linux
        .namespaces
        .iter()
        .try_for_each(|n| claims.keyed(Field::Namespace, Marked::parse(&n.type_).key()))
}

pub(crate) fn apply(asked: &ContainerAdjustment, merged: &mut Merged) {
    let asked = &asked.linux.namespaces;
    if asked.is_empty() {
        return;
    }
    let (container, adjust) = merged.linux();
    let (mut set, mut removed) = (Vec::new(), HashSet::new());
    for namespace in asked {
        match Marked::parse(&namespace.type_) {
            Marked::Set(_) => set.push(namespace.clone()),
            Marked::Remove(kind) => drop(removed.insert(kind)),
        }
    }
    // By their claims no type is both.
    container.namespaces.retain(|n| !removed.contains(&*n.type_));
    replace_or_push(&mut container.namespaces, &set, |n| &n.type_);
    adjust.namespaces.extend_from_slice(asked);
}
