//! Files of cgroup v2. Each name has one owner, the plugin that set it.

use crate::error::MergeError;
use crate::owners::Claims;
use nri_api::proto::{Field, LinuxResources};

pub(crate) fn claim(requested: &LinuxResources, claims: &mut Claims<'_>) -> Result<(), MergeError> {
    let mut names: Vec<&String> = requested.unified.keys().collect();
    names.sort_unstable();
    names.into_iter().try_for_each(|name| claims.claim_key(Field::CgroupsUnified, name))
}

pub(crate) fn apply(requested: &LinuxResources, into: &mut LinuxResources) {
    into.unified
        .extend(requested.unified.iter().map(|(name, value)| (name.clone(), value.clone())));
}
