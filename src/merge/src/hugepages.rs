//! Limits of huge pages, owned by page size; a size that is limited already is replaced.

use crate::MergeError;
use crate::owners::Claims;
use nri_api::proto::{Field, LinuxResources};

pub(crate) fn claim(asked: &LinuxResources, claims: &mut Claims<'_>) -> Result<(), MergeError> {
    asked.hugepage_limits.iter().try_for_each(|l| claims.keyed(Field::HugepageLimits, &l.page_size))
}

pub(crate) fn apply(asked: &LinuxResources, into: &mut LinuxResources) {
    for limit in &asked.hugepage_limits {
        match into.hugepage_limits.iter_mut().find(|l| l.page_size == limit.page_size) {
            Some(present) => *present = limit.clone(),
            None => into.hugepage_limits.push(limit.clone()),
        }
    }
}
