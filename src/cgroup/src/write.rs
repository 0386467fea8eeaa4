//! One write to a control file, and the value that proves it.

use crate::effective::EffectiveValue;
use std::path::PathBuf;

/// A value for a control file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupWrite {
    /// Name of the resource field, such as `memory.limit` or `hugepageLimits.2MB`.
    pub field: String,
    /// Alternative files; the first that exists is meant.
    pub files: Vec<PathBuf>,
    /// Texts to write, each by a `write` of its own; none where only the runtime can set the value.
    pub texts: Vec<String>,
    /// Content of the file once the value is effective.
    pub effective: EffectiveValue,
    /// Whether all files may be missing.
    pub is_optional: bool,
}
