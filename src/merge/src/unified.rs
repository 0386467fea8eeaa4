//! Files of cgroup v2, owned by name.

use crate::MergeError;
use crate::owners::Claims;
use nri_api::proto::{Field, LinuxResources};

pub(crate) fn claim(asked: &LinuxResources, claims: &mut Claims<'_>) -> Result<(), MergeError> {
    let mut names: Vec<&String> = asked.unified.keys().collect();
    names.sort_unstable();
    names.into_iter().try_for_each(|name| claims.keyed(Field::CgroupsUnified, name))
}

pub(crate) fn apply(asked: &LinuxResources, into: &mut LinuxResources) {
    into.unified.extend(asked.unified.iter().map(|(name, value)| (name.clone(), value.clone())));
}
