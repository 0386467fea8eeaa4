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

    /// Returns an id that no container has in another root, and no pod.
    pub fn distinct_id(&self) -> String {
        format!("{}-{}", self.id, &digest(self.root.as_os_str().as_encoded_bytes())[..8])
    }

    /// Returns the stem of the record's file name.
    pub fn file_name(&self) -> String {
        let mut text = self.root.as_os_str().as_encoded_bytes().to_vec();
        text.push(0);
        text.extend_from_slice(self.id.as_bytes());
        digest(&text)[..32].to_owned()
    }

    /// Returns a UUID of this root and id, of version 8 (RFC 9562): the bits of the digest in
    /// [`ContainerKey::file_name`], but for those of version and variant.
    pub fn uuid(&self) -> String {
        let digits = self.file_name();
        let variant = match digits.as_bytes()[16] {
            b'0' | b'4' | b'8' | b'c' => '8',
            b'1' | b'5' | b'9' | b'd' => '9',
            b'2' | b'6' | b'a' | b'e' => 'a',
            _ => 'b',
        };
        let (low, mid, high) = (&digits[..8], &digits[8..12], &digits[13..16]);
        format!("{low}-{mid}-8{high}-{variant}{}-{}", &digits[17..20], &digits[20..])
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

    #[test]
    fn uuids_have_version_and_variant_and_stay_the_same() {
        let uuid = |root: &str, id: &str| ContainerKey { root: root.into(), id: id.into() }.uuid();
        // Plugins may keep it: it must not change with a release.
        assert_eq!(uuid("/run/runc", "web"), "77d1f831-8ab6-8023-bd78-7ed9902ac14a");
        for n in 0..64 {
            let uuid = uuid("/run/runc", &n.to_string());
            let parts: Vec<_> = uuid.split('-').collect();
            assert_eq!(parts.iter().map(|p| p.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
            assert!(uuid.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f' | b'-')), "{uuid}");
            assert!(parts[2].starts_with('8') && parts[3].starts_with(['8', '9', 'a', 'b']));
        }
        assert_ne!(uuid("/a", "x"), uuid("/b", "x"));
    }
}
