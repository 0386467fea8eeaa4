//! Whether the host has mounted cgroups with `nsdelegate`.

use nri_mountinfo::parse_line;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Where a container that runs the plugin has the host's mounts.
const OF_HOST: &str = "/host/proc/1/mountinfo";

/// Mounts of this process. The option is one of the file system, so each of its mounts shows it;
/// those of process 1 would need the capability `sys_ptrace`.
const OWN: &str = "/proc/self/mountinfo";

/// Where hosts mount cgroups of version 2.
const MOUNT_POINTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// Error of a file of mounts.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MountFileError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A line is no mount.
    #[error("{}, line {line}: not a line of mountinfo", path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line.
        line: usize,
    },
}

/// Returns the path of the host's mounts, if the command line has none.
pub(crate) fn default_path() -> PathBuf {
    let of_host = Path::new(OF_HOST);
    if of_host.exists() { of_host.into() } else { OWN.into() }
}

/// Whether the first cgroup mount of version 2 has the option `nsdelegate`.
pub(crate) fn has_nsdelegate(path: &Path) -> Result<bool, MountFileError> {
    let failed = |source| MountFileError::Read { path: path.into(), source };
    let table = fs::read(path).map_err(failed)?;
    for (number, line) in table.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let mount = parse_line(line.strip_suffix(b"\n").unwrap_or(line))
            .ok_or_else(|| MountFileError::Line { path: path.into(), line: number + 1 })?;
        if mount.fs_type == "cgroup2" && MOUNT_POINTS.iter().any(|p| mount.point == Path::new(p)) {
            return Ok(mount.super_options.split(',').any(|option| option == "nsdelegate"));
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nsdelegate_is_an_option_of_the_file_system() {
        let check = |lines: &[&str], expected: Option<bool>| {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), lines.join("\n")).unwrap();
            assert_eq!(has_nsdelegate(file.path()).ok(), expected, "{lines:?}");
        };
        let run = "35 24 0:31 / /run rw,nosuid - tmpfs tmpfs rw,mode=755";
        let delegated = "36 35 98:0 / /sys/fs/cgroup rw shared:1 - cgroup2 cgroup2 rw,nsdelegate";
        let plain = "36 35 98:0 / /sys/fs/cgroup/unified rw,nsdelegate - cgroup2 cgroup2 rw";
        let elsewhere = "36 35 98:0 / /other rw - cgroup2 cgroup2 rw,nsdelegate";
        check(&[run, delegated], Some(true));
        check(&[plain, delegated], Some(false));
        check(&[delegated, plain], Some(true));
        check(&[run, elsewhere], Some(false));
        check(&[], Some(false));
        check(&[run, "a line of something else", delegated], None);
        let missing = has_nsdelegate(Path::new("/nonexistent/mountinfo")).unwrap_err();
        assert!(missing.to_string().starts_with("cannot read /nonexistent/mountinfo: "));
    }
}
