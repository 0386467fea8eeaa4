//! Use of a cgroup that systemd has delegated to `nrid` (`Delegate=` in its unit): `nrid` moves to
//! a child of this cgroup, so that launched plugins can get child cgroups of their own beside it.
//!
//! Only on cgroup v2, and only if `nrid` is the only process in the cgroup. If an engine has
//! started `nrid` in a cgroup that systemd has delegated to the engine, that cgroup is not changed.

use nri_cgroup::HierarchyKind;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// Name of the cgroup of `nrid` below the delegated cgroup.
const OWN: &str = "nrid";

/// Controllers that account for the resources that a plugin uses.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];

/// Attributes by which systemd marks a delegated cgroup; the second one since version 251.
const MARKS: [&str; 2] = ["trusted.delegate", "user.delegate"];

/// The delegated cgroup. A property of the process, like its own cgroup.
static DELEGATED: OnceLock<PathBuf> = OnceLock::new();

/// Returns the cgroup in which launched plugins get cgroups of their own, if there is one.
pub fn plugin_cgroups() -> Option<PathBuf> {
    DELEGATED.get().cloned()
}

/// Moves this process to a child of its cgroup, if systemd has delegated the cgroup to it.
///
/// # Errors
/// The cgroup is delegated, but cannot be changed.
pub fn use_delegated_cgroup() -> io::Result<()> {
    let Some(dir) = own_cgroup() else { return Ok(()) };
    let dir = match dir.parent().filter(|parent| dir.ends_with(OWN) && is_delegated(parent)) {
        // The program that this one replaced in the same process has moved the process already.
        Some(parent) => parent.to_owned(),
        None if is_delegated(&dir) && is_alone_in(&dir)? => {
            let own = dir.join(OWN);
            fs::create_dir(&own)?;
            fs::write(own.join("cgroup.procs"), "0")?;
            dir
        }
        None => return Ok(()),
    };
    for controller in CONTROLLERS {
        // Fails for a controller that the kernel or the unit lacks. The kernel then does not
        // account for that resource of plugins.
        let _ = fs::write(dir.join("cgroup.subtree_control"), format!("+{controller}"));
    }
    DELEGATED.get_or_init(|| dir);
    Ok(())
}

/// Returns the directory of this process's cgroup on cgroup v2.
fn own_cgroup() -> Option<PathBuf> {
    let own = crate::host::proc::text("/proc/self/cgroup");
    let hierarchies = crate::host::hierarchies::read();
    let v2 = hierarchies.into_iter().find(|h| matches!(h.kind, HierarchyKind::V2))?;
    let path = nri_cgroup::path_in_hierarchy(&own, &v2)?.trim_start_matches('/');
    Some(v2.path.join(path))
}

fn is_delegated(dir: &Path) -> bool {
    MARKS.iter().any(|mark| {
        let mut value = [0; 2];
        rustix::fs::getxattr(dir, *mark, &mut value).is_ok_and(|len| value[..len] == *b"1")
    })
}

fn is_alone_in(dir: &Path) -> io::Result<bool> {
    let processes = fs::read_to_string(dir.join("cgroup.procs"))?;
    Ok(processes.trim() == std::process::id().to_string())
}
