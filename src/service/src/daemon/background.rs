//! Becoming independent of whoever started us: a wrapper that lives for one verb, in a container's
//! or pod's cgroup, with the engine's pipes in its descriptors.
//!
//! `nrid --background` runs twice. The first process makes every inherited descriptor
//! close-on-exec, starts the second and ends, so that the second is nobody's child. The second
//! opens a session, leaves the cgroup and goes on. What keeps a single `nrid` is the lock in
//! [`crate::daemon::lock`].

use rustix::process::{DumpableBehavior, Signal, setsid};
use std::{
    fs, io,
    path::PathBuf,
    process::{Command, Stdio},
};

/// Given to the second process in place of `--background`.
pub const STAY: &str = "--stay";

/// The first process: starts the second one with our arguments, `--background` replaced.
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

/// Variables that are for us; the rest are the engine's, and its sockets and pipes among them must
/// not live on in us.
const KEPT: [&str; 5] =
    ["PATH", "XDG_RUNTIME_DIR", "HOME", nri_locate::CONFIG_ENV, "LD_LIBRARY_PATH"];

/// Nothing that we make is for others, whoever started us; and what is in our memory, such as the
/// environments of containers, is neither for a core dump nor for other processes of our user.
pub fn keep_to_ourselves() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    if let Err(error) = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "core dumps could have what containers keep secret");
    }
}

/// Whoever starts us may have blocked signals, as runtimes do for the hooks that they call: then
/// nobody could end us, and the plugins that we launch. Before there is any other thread.
pub fn hear_signals() {
    if let Err(error) = nix::sys::signal::SigSet::empty().thread_set_mask() {
        tracing::warn!(%error, "signals that were blocked stay so");
    }
}

/// The second process: what it inherited and must not keep.
pub fn settle() {
    // Away from the starter's terminal and from signals to its group. It cannot fail: the first
    // process leads our group, not we.
    let _ = setsid();
    let _ = rustix::process::set_parent_process_death_signal(None::<Signal>);
    for (file, error) in leave_cgroup() {
        tracing::warn!(file = %file.display(), %error, "still in the cgroup of whoever started us");
    }
}

/// Moves this process to the root of every cgroup hierarchy, and returns where that failed.
///
/// The caller's cgroup is a container's or pod's: whoever stays there is limited and killed with
/// it.
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
