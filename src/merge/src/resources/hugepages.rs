//! Limits of huge pages, owned by page size. A reply replaces the container's limit of the same
//! page size.

use crate::error::MergeError;
use crate::named::replace_or_push;
use crate::owners::Claims;
use nri_api::proto::{Field, LinuxResources};

pub(crate) fn claim(requested: &LinuxResources, claims: &mut Claims<'_>) -> Result<(), MergeError> {
    requested
        .hugepage_limits
        .iter()
        .try_for_each(|l| claims.claim_key(Field::HugepageLimits, &l.page_size))
}

pub(crate) fn apply(requested: &LinuxResources, into: &mut LinuxResources) {
    replace_or_push(&mut into.hugepage_limits, &requested.hugepage_limits, |limit| {
        &limit.page_size
    });
}
