//! Resource limits of the process, owned by type; a type that the container has already is replaced.

use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(asked: &ContainerAdjustment, claims: &mut Claims<'_>) -> Result<(), MergeError> {
    asked.rlimits.iter().try_for_each(|l| claims.keyed(Field::Rlimits, &l.type_))
}

pub(crate) fn apply(asked: &ContainerAdjustment, merged: &mut Merged) {
    for limit in &asked.rlimits {
        match merged.container.rlimits.iter_mut().find(|l| l.type_ == limit.type_) {
            Some(present) => *present = limit.clone(),
            None => merged.container.rlimits.push(limit.clone()),
        }
        merged.adjust.rlimits.push(limit.clone());
    }
}
