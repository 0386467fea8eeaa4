//! Whether the file system of a file answers, found out by a child: calls must not hang with the
//! file system of the configuration. Only calls for which `nrid` has published nothing read it.

use crate::runtime::ends_within;
use nri_locate::{ANSWER_TIMEOUT, touch};
use std::path::Path;

/// Whether a child can access a file in time.
pub(crate) fn answers(path: &Path) -> bool {
    ends_within(ANSWER_TIMEOUT, || touch(path))
}
