//! Whether the host has mounted cgroups with `nsdelegate`.

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
    // Mount points need not be UTF-8; those in question are.
    let bytes = fs::read(path).map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes);
    for (number, line) in text.lines().enumerate() {
        let mount = parse(line)
            .ok_or_else(|| MountFileError::Line { path: path.into(), line: number + 1 })?;
        if mount.file_system == "cgroup2" && MOUNT_POINTS.contains(&mount.mount_point) {
            return Ok(mount.options.split(',').any(|option| option == "nsdelegate"));
        }
    }
    Ok(false)
}

/// A line of mountinfo, see proc_pid_mountinfo(5).
struct MountLine<'a> {
    mount_point: &'a str,
    file_system: &'a str,
    /// Options of the file system, not of the mount.
    options: &'a str,
}

fn parse(line: &str) -> Option<MountLine<'_>> {
    // Spaces within fields are escaped, and optional fields end with a dash.
    let (mount, file_system) = line.split_once(" - ")?;
    let mut fields = file_system.split(' ');
    Some(MountLine {
        mount_point: mount.split(' ').nth(4)?,
        file_system: fields.next()?,
        options: fields.nth(1)?,
    })
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
