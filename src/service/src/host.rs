//! What applying an adjustment asks of the host.

use nri_spec::{HostDevice, HostDeviceKind, Propagation};
use std::{
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

/// Tells the propagation of the mount that a path lies on, from one reading of the mount table.
pub fn propagation() -> impl Fn(&str) -> Option<Propagation> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    move |path| {
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
        propagation_in(&table, &real)
    }
}

fn propagation_in(mountinfo: &str, path: &Path) -> Option<Propagation> {
    let parse = |line: &str| {
        let (left, _) = line.split_once(" - ")?;
        let fields: Vec<&str> = left.split(' ').collect();
        let point = PathBuf::from(unescape(fields.get(4)?));
        let optional = fields.get(6..).unwrap_or_default();
        let kind = if optional.iter().any(|o| o.starts_with("shared:")) {
            Propagation::Shared
        } else if optional.iter().any(|o| o.starts_with("master:")) {
            Propagation::Slave
        } else {
            Propagation::Private
        };
        path.starts_with(&point).then(|| (point.components().count(), kind))
    };
    // Of mounts on the same point the last one is on top.
    mountinfo.lines().filter_map(parse).max_by_key(|(depth, _)| *depth).map(|(_, kind)| kind)
}

/// The kernel writes blanks, tabs, newlines and backslashes as octal escapes.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

/// The device node at a path of the host.
pub fn device(path: &str) -> Option<HostDevice> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    let kind = match meta.file_type() {
        t if t.is_block_device() => HostDeviceKind::Block,
        t if t.is_char_device() => HostDeviceKind::Char,
        t if t.is_fifo() => HostDeviceKind::Fifo,
        _ => return None,
    };
    Some(HostDevice {
        kind,
        major: i64::from(rustix::fs::major(meta.rdev())),
        minor: i64::from(rustix::fs::minor(meta.rdev())),
        mode: meta.mode() & 0o7777,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_and_last_mount_counts() {
        let table = "\
1 0 0:1 / / rw shared:1 - ext4 /dev/a rw
2 1 0:2 / /a rw master:1 - ext4 /dev/b rw
3 2 0:3 / /a/b\\040c rw - ext4 /dev/c rw
4 2 0:4 / /a rw shared:9 master:1 - tmpfs t rw
";
        let of = |p: &str| propagation_in(table, Path::new(p));
        assert_eq!(of("/x"), Some(Propagation::Shared));
        assert_eq!(of("/a/x"), Some(Propagation::Shared));
        assert_eq!(of("/a/b c/d"), Some(Propagation::Private));
        assert_eq!(of("/ab"), Some(Propagation::Shared));
    }

    #[test]
    fn null_is_a_device() {
        let null = device("/dev/null").unwrap();
        assert_eq!((null.kind, null.major, null.minor), (HostDeviceKind::Char, 1, 3));
        assert_eq!(device("/proc/self/stat"), None);
    }
}
