//! [`ContainerKey`], the identity of a container in `nrid`: runtime root and id, because two
//! runtime roots may have containers of the same id.

use nri_host::sha256 as digest;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A container's runtime root and id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ContainerKey {
    /// Root directory of the runtime.
    pub root: PathBuf,
    /// Id by which the runtime knows the container.
    pub id: String,
}

impl ContainerKey {
    /// Returns the name by which our hook reports the container. The name contains the time of the
    /// creation, so that a hook that outlives its container does not report for the next container
    /// of the same id.
    pub fn hook_name(&self, incarnation: i64) -> String {
        format!("{}-{incarnation:x}", self.file_name())
    }

    /// Returns the stem of the record's file name.
    pub fn file_name(&self) -> String {
        let mut text = self.root.as_os_str().as_encoded_bytes().to_vec();
        text.push(0);
        text.extend_from_slice(self.id.as_bytes());
        digest(&text)[..32].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ids_in_different_roots_have_different_file_names() {
        let name =
            |root: &str, id: &str| ContainerKey { root: root.into(), id: id.into() }.file_name();
        assert_ne!(name("/a", "x"), name("/b", "x"));
        assert_ne!(name("/a", "bx"), name("/ab", "x"));
        assert_eq!(name("/a", "x"), name("/a", "x"));
    }
}
