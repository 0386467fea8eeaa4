//! [`CgroupWrite`]: a write to a control file, and the content of the file that proves its effect.

use crate::effective::EffectiveValue;
use std::path::PathBuf;

/// A write to a control file. It is omitted if the value is already effective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupWrite {
    /// Name of the resource field, such as `memory.limit` or `hugepageLimits[2MB]`.
    pub field: String,
    /// Alternative files; the first that exists is used.
    pub files: Vec<PathBuf>,
    /// Texts to write, each by a `write` call of its own. Empty if the value is only checked.
    pub texts: Vec<String>,
    /// Content of the file once the value is effective.
    pub effective: EffectiveValue,
    /// Whether all files may be missing without an error.
    pub is_optional: bool,
}
