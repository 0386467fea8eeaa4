//! `nrid --background`: detaches from the starter. The starter is a wrapper, which lives for one
//! verb, may be in the cgroup of a container or pod, and has pipes of the engine among its
//! descriptors.
//!
//! It runs as two processes. The first makes inherited descriptors close-on-exec, starts the second
//! and ends, so that the second has no parent that waits. The second opens a session and leaves the
//! cgroup. A second `nrid` is prevented by the lock of the state directory, not here.

use rustix::process::{DumpableBehavior, Signal, setsid};
use std::{
    fs, io,
    path::PathBuf,
    process::{Command, Stdio},
};

/// Argument of the second process, in place of `--background`.
pub const STAY: &str = "--stay";

/// Starts the second process with the same arguments, `--background` replaced.
///
/// # Errors
/// The second process cannot be started.
pub fn start_second() -> io::Result<()> {
    crate::host::sys::close_on_exec_from(3)?;
    let arguments =
        std::env::args_os().skip(1).map(|a| if a == "--background" { STAY.into() } else { a });
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

/// Variables that the second process keeps. The rest are the engine's, and may name its sockets and
/// pipes.
const KEPT: [&str; 5] =
    ["PATH", "XDG_RUNTIME_DIR", "HOME", nri_locate::CONFIG_ENV, "LD_LIBRARY_PATH"];

/// Denies other users access to the files and the memory of this process, because both hold
/// environment variables of containers.
pub fn restrict_access() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    if let Err(error) = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "cannot disable core dumps, which may hold secrets of containers");
    }
}

/// Unblocks all signals, before there is another thread. Runtimes block them for the hooks that
/// they call, and launched plugins would inherit that.
pub fn unblock_signals() {
    if let Err(error) = nix::sys::signal::SigSet::empty().thread_set_mask() {
        tracing::warn!(%error, "cannot unblock signals");
    }
}

/// Leaves the session, parent and cgroup of the starter, in the second process.
pub fn detach() {
    // Leaves the starter's terminal and process group. It cannot fail, because the first process
    // leads the group.
    let _ = setsid();
    let _ = rustix::process::set_parent_process_death_signal(None::<Signal>);
    for (file, error) in leave_cgroup() {
        tracing::warn!(file = %file.display(), %error, "cannot leave the cgroup of the starter");
    }
}

/// Moves this process to the root of every cgroup hierarchy, and returns the files where that
/// failed. In the cgroup of a container or pod, `nrid` would be limited and killed with that
/// cgroup.
fn leave_cgroup() -> Vec<(PathBuf, io::Error)> {
    let inside = crate::host::proc::text("/proc/self/cgroup");
    crate::host::hierarchies::mounted()
        .into_iter()
        .filter(|hierarchy| {
            nri_cgroup::path_in_hierarchy(&inside, hierarchy).is_some_and(|path| path != "/")
        })
        .filter_map(|hierarchy| {
            let file = hierarchy.path.join("cgroup.procs");
            fs::write(&file, "0").err().map(|e| (file, e))
        })
        .collect()
}
