//! Becoming independent of whoever started us: a wrapper that lives for one verb, in a container's or pod's cgroup, with the engine's pipes
//! in its descriptors.
//!
//! `nrid --background` runs twice. The first process makes every inherited descriptor close-on-exec, starts the second and ends, so that the
//! second is nobody's child. The second opens a session, leaves the cgroup and goes on. What keeps a single `nrid` is the lock in [`crate::lock`].

use rustix::process::{Signal, setsid};
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Given to the second process in place of `--background`.
pub const STAY: &str = "--stay";

/// The first process: starts the second one with our arguments, `--background` replaced.
///
/// # Errors
/// The second process cannot be started.
pub fn start_second() -> io::Result<()> {
    crate::sys::close_on_exec_from(3)?;
    let arguments = std::env::args_os().skip(1).map(|a| if a == "--background" { STAY.into() } else { a });
    Command::new(std::env::current_exe()?)
        .args(arguments)
        .env_clear()
        .envs(std::env::vars_os().filter(|(k, _)| KEPT.iter().any(|kept| k == kept)))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn()?;
    Ok(())
}

/// Variables that are for us; the rest are the engine's, and its sockets and pipes among them must not live on in us.
const KEPT: [&str; 5] = ["PATH", "XDG_RUNTIME_DIR", "HOME", nri_config::CONFIG_ENV, "LD_LIBRARY_PATH"];

/// The second process: what it inherited and must not keep.
pub fn settle() {
    // Away from the starter's terminal and from signals to its group. It cannot fail: the first process leads our group, not we.
    let _ = setsid();
    let _ = rustix::process::set_parent_process_death_signal(None::<Signal>);
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    for (file, error) in leave_cgroup() {
        tracing::warn!(file = %file.display(), %error, "still in the cgroup of whoever started us");
    }
}

/// Moves this process to the root of every cgroup hierarchy, and returns where that failed.
///
/// The caller's cgroup is a container's or pod's: whoever stays there is limited and killed with it.
fn leave_cgroup() -> Vec<(PathBuf, io::Error)> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let inside = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    cgroup_roots(&mounts)
        .into_iter()
        .filter(|root| is_below(&inside, root))
        .filter_map(|root| {
            let file = root.path.join("cgroup.procs");
            fs::write(&file, "0").err().map(|e| (file, e))
        })
        .collect()
}

#[derive(Debug, PartialEq, Eq)]
struct CgroupRoot {
    path: PathBuf,
    /// Controllers of a v1 hierarchy; empty for v2.
    options: Vec<String>,
}

/// The cgroup mounts in a mountinfo, those that show the hierarchy from its root.
fn cgroup_roots(mountinfo: &str) -> Vec<CgroupRoot> {
    let parse = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let (left, right): (Vec<_>, Vec<_>) = (left.split(' ').collect(), right.split(' ').collect());
        let (root, path, kind) = (*left.get(3)?, *left.get(4)?, *right.first()?);
        if root != "/" {
            return None;
        }
        let options = match kind {
            "cgroup2" => Vec::new(),
            "cgroup" => right.get(2)?.split(',').map(str::to_owned).collect(),
            _ => return None,
        };
        Some(CgroupRoot { path: Path::new(path).to_owned(), options })
    };
    mountinfo.lines().filter_map(parse).collect()
}

/// Whether `/proc/self/cgroup` says that we are somewhere below this root.
fn is_below(inside: &str, root: &CgroupRoot) -> bool {
    inside.lines().any(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next(), parts.next().unwrap_or(""), parts.next().unwrap_or("/"));
        let same = if controllers.is_empty() {
            root.options.is_empty()
        } else {
            controllers.split(',').all(|c| root.options.iter().any(|o| o == c))
        };
        same && path != "/"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_found_and_matched() {
        let mountinfo = "\
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
42 31 0:39 /docker/x /mnt rw - cgroup cgroup rw,memory
43 31 0:40 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
44 31 0:41 / /proc rw - proc proc rw
";
        let roots = cgroup_roots(mountinfo);
        assert_eq!(roots.len(), 3);
        let inside = "5:cpu,cpuacct:/pod/c\n1:name=systemd:/\n0::/pod/c\n";
        assert_eq!(roots.iter().map(|r| is_below(inside, r)).collect::<Vec<_>>(), [true, true, false]);
    }
}
