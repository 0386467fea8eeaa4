//! Mount tables: `/proc/PID/mountinfo` (proc_pid_mountinfo(5)).
//!
//! Paths are bytes: any user may choose the name of a mount point, and no name may hide other
//! mounts. The table is read by the caller. Start from [`parse`].

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::{ffi::OsString, os::unix::ffi::OsStringExt, path::PathBuf};

/// A line of a mount table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountInfo {
    /// Id of the mount, as in `/proc/PID/fdinfo`.
    pub id: u64,
    /// Device of the file system, as `major:minor`.
    pub device: String,
    /// Directory in the file system that appears at the mount point.
    pub root: PathBuf,
    /// Mount point.
    pub point: PathBuf,
    /// Options of this mount, separated by commas.
    pub options: String,
    /// How mounts below the mount point propagate.
    pub propagation: MountPropagation,
    /// Type of the file system.
    pub fs_type: String,
    /// Source of the file system, such as a block device; some types have a word in its place.
    pub source: PathBuf,
    /// Options of the file system, which all its mounts share, separated by commas.
    pub super_options: String,
}

/// Propagation of a mount, by its optional fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountPropagation {
    /// `shared:N`, with or without `master:N`.
    Shared,
    /// `master:N` alone.
    Slave,
    /// Neither `shared:N` nor `master:N`.
    Private,
}

/// Returns the mounts in the order of the table, without lines that are no mounts. If several
/// mounts have the same mount point, the last one is on top.
pub fn parse(table: &[u8]) -> Vec<MountInfo> {
    table.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

/// Parses a line, `id parent device root point options [optional...] - type source super-options`,
/// without its end. Returns `None` if it is no mount.
pub fn parse_line(line: &[u8]) -> Option<MountInfo> {
    let mut fields = line.split(|byte| *byte == b' ');
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let id = text(fields.next()?).parse().ok()?;
    let device = text(fields.nth(1)?);
    let root = decode(fields.next()?);
    let point = decode(fields.next()?);
    let options = text(fields.next()?);
    let optional: Vec<&[u8]> = fields.by_ref().take_while(|field| *field != b"-").collect();
    let has = |prefix: &[u8]| optional.iter().any(|field| field.starts_with(prefix));
    let propagation = if has(b"shared:") {
        MountPropagation::Shared
    } else if has(b"master:") {
        MountPropagation::Slave
    } else {
        MountPropagation::Private
    };
    let fs_type = text(fields.next()?);
    let source = decode(fields.next()?);
    let super_options = text(fields.next()?);
    Some(MountInfo {
        id,
        device,
        root,
        point,
        options,
        propagation,
        fs_type,
        source,
        super_options,
    })
}

/// Decodes a path, or the value of an option that is one. The kernel writes blanks, tabs, newlines,
/// backslashes and `#` as octal escapes, and in options commas, too.
pub fn decode(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, others @ ..] = rest {
        let octal = others.first_chunk::<3>().filter(|_| *first == b'\\');
        let octal = octal.and_then(|digits| str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = others.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_fields_of_a_mount_are_parsed() {
        let table = b"\
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
33 31 0:30 /a /b\\040c\\134\\011\\012 rw,noatime shared:9 master:1 - ext4 /dev/a rw
34 31 0:31 / /d rw master:1 propagate_from:2 - ext4 /dev/a rw
35 31 0:32 / /e rw unbindable - tmpfs  rw
";
        let found = parse(table);
        let points: Vec<_> =
            found.iter().map(|m| (m.point.to_str().unwrap(), m.propagation)).collect();
        use MountPropagation::{Private, Shared, Slave};
        let expected = [
            ("/sys/fs/cgroup/cpu", Shared),
            ("/b c\\\t\n", Shared),
            ("/d", Slave),
            ("/e", Private),
        ];
        assert_eq!(points, expected);
        assert_eq!((found[1].id, found[1].device.as_str()), (33, "0:30"));
        assert_eq!(
            (&*found[1].options, &*found[0].super_options),
            ("rw,noatime", "rw,cpu,cpuacct")
        );
        let sources: Vec<_> = found.iter().map(|m| m.source.to_str().unwrap()).collect();
        assert_eq!(sources, ["cgroup", "/dev/a", "/dev/a", ""]);
        assert_eq!(
            (found[1].root.as_path(), found[3].fs_type.as_str()),
            (Path::new("/a"), "tmpfs")
        );
    }

    #[test]
    fn a_mount_point_that_is_not_text_hides_no_other_mount() {
        let lines: [&[u8]; 4] = [
            b"24 1 0:22 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n",
            b"25 1 0:23 / /home/\xff\xfe rw - fuse.x x rw\n",
            b"broken - cgroup2\n",
            b"26 1 0:24 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
        ];
        let found = parse(&lines.concat());
        assert_eq!(found.len(), 3);
        assert_eq!(found[1].point.as_os_str().as_encoded_bytes(), b"/home/\xff\xfe");
        assert_eq!(found[2].point, Path::new("/sys/fs/cgroup/cpu"));
    }
}
