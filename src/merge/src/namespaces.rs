//! Namespaces, owned by type. Unlike with other keys, a removal is a claim too.

use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use nri_api::Marked;
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(asked: &ContainerAdjustment, claims: &mut Claims<'_>) -> Result<(), MergeError> {
    asked
        .linux
        .namespaces
        .iter()
        .try_for_each(|n| claims.keyed(Field::Namespace, Marked::parse(&n.type_).key()))
}

pub(crate) fn apply(asked: &ContainerAdjustment, merged: &mut Merged) {
    for namespace in &asked.linux.namespaces {
        let (container, adjust) = merged.linux();
        let kind = Marked::parse(&namespace.type_);
        let place = container.namespaces.iter().position(|n| n.type_ == kind.key());
        match (kind, place) {
            (Marked::Set(_), Some(place)) => container.namespaces[place] = namespace.clone(),
            (Marked::Set(_), None) => container.namespaces.push(namespace.clone()),
            (Marked::Remove(kind), _) => container.namespaces.retain(|n| n.type_ != kind),
        }
        adjust.namespaces.push(namespace.clone());
    }
}
