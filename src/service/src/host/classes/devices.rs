//! Finds the disks of the host that match the patterns of a block I/O class.

use nri_spec::BlockDevices;
use std::{cell::RefCell, os::unix::fs::FileTypeExt, os::unix::fs::MetadataExt, path::Path};

/// An invalid device pattern.
#[derive(Debug, thiserror::Error)]
#[error("device pattern {pattern:?} is not valid: {why}")]
pub struct InvalidPattern {
    /// The pattern.
    pub pattern: String,
    /// The cause, from the pattern parser.
    pub why: &'static str,
}

/// The block devices of this host, without partitions: I/O limits of the kernel apply to whole
/// disks.
#[derive(Debug, Default)]
pub struct Disks {
    invalid: RefCell<Option<InvalidPattern>>,
}

impl Disks {
    /// Returns the first invalid pattern.
    pub fn into_error(self) -> Option<InvalidPattern> {
        self.invalid.into_inner()
    }
}

impl BlockDevices for Disks {
    fn matching(&self, pattern: &str) -> Vec<(i64, i64)> {
        let paths = match glob::glob(pattern) {
            Ok(paths) => paths,
            Err(error) => {
                let invalid = InvalidPattern { pattern: pattern.to_owned(), why: error.msg };
                self.invalid.borrow_mut().get_or_insert(invalid);
                return Vec::new();
            }
        };
        let mut disks: Vec<_> = paths.flatten().filter_map(|path| disk(&path)).collect();
        disks.sort_unstable();
        disks.dedup();
        if disks.is_empty() {
            // Not an error: a class may list the disks of hosts with different hardware.
            tracing::warn!(
                pattern,
                "no disk of this host matches the pattern of a block I/O class"
            );
        }
        disks
    }
}

/// Returns the device number of the disk at a path, with symbolic links followed.
fn disk(path: &Path) -> Option<(i64, i64)> {
    let meta = std::fs::metadata(path).ok().filter(|m| m.file_type().is_block_device())?;
    let (major, minor) = (rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev()));
    let is_partition = Path::new(&format!("/sys/dev/block/{major}:{minor}/partition")).exists();
    (!is_partition).then(|| (major.into(), minor.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_disks_match_a_pattern() {
        let disks = Disks::default();
        // A character device, a regular file, and a path that does not exist.
        assert_eq!(disks.matching("/dev/nul[k-m]"), []);
        assert_eq!(disks.matching("/etc/pass*"), []);
        assert_eq!(disks.matching("/nowhere/*"), []);
        assert!(disks.into_error().is_none());
    }

    /// Compares the disks found in `/dev` with those in `/sys/block`.
    #[test]
    fn disks_in_dev_match_those_in_sys_block() {
        let number = |entry: std::fs::DirEntry| {
            let text = std::fs::read_to_string(entry.path().join("dev")).ok()?;
            let (major, minor) = text.trim().split_once(':')?;
            let node = Path::new("/dev").join(entry.file_name()).exists();
            node.then(|| (major.parse().unwrap(), minor.parse().unwrap()))
        };
        let entries = std::fs::read_dir("/sys/block").into_iter().flatten();
        let mut known: Vec<(i64, i64)> = entries.filter_map(|e| number(e.unwrap())).collect();
        known.sort_unstable();
        let found = Disks::default().matching("/dev/*");
        assert!(known.iter().all(|d| found.contains(d)), "{known:?} in {found:?}");
    }

    #[test]
    fn an_invalid_device_pattern_is_an_error() {
        let disks = Disks::default();
        assert_eq!(disks.matching("/dev/["), []);
        assert_eq!(disks.into_error().unwrap().pattern, "/dev/[");
    }
}
