//! Limits of huge pages, owned by page size; a size that is limited already is replaced.

use crate::MergeError;
use crate::named::replace_or_push;
use crate::owners::Claims;
use nri_api::proto::{Field, LinuxResources};

pub(crate) fn claim(asked: &LinuxResources, claims: &mut Claims<'_>) -> Result<(), MergeError> {
    asked.hugepage_limits.iter().try_for_each(|l| claims.keyed(Field::HugepageLimits, &l.page_size))
}

pub(crate) fn apply(asked: &LinuxResources, into: &mut LinuxResources) {
    replace_or_push(&mut into.hugepage_limits, &asked.hugepage_limits, |limit| &limit.page_size);
}
