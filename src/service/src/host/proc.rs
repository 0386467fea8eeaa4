//! Reads files of `/proc`. Names in these files may be any bytes: invalid UTF-8 in the name of one
//! control group must not make the whole file unreadable.

use nri_mountinfo::MountInfo;
use std::{fs, path::Path};

/// Returns the file's text, with invalid UTF-8 replaced; empty if the file cannot be read.
pub fn text(file: impl AsRef<Path>) -> String {
    fs::read(file)
        .map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the mounts that this process sees, in the order of the table, or none if the table
/// cannot be read. If several mounts have the same mount point, the last one is on top.
pub fn mounts() -> Vec<MountInfo> {
    nri_mountinfo::parse(&fs::read("/proc/self/mountinfo").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_utf_8_is_replaced_and_other_lines_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("cgroup");
        fs::write(&file, b"2:cpu:/a\xff\n0::/b\n").unwrap();
        assert_eq!(text(&file), "2:cpu:/a\u{fffd}\n0::/b\n");
        assert_eq!(text(dir.path().join("none")), "");
    }
}
