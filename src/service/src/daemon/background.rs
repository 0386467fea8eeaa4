//! `nrid --background`: detaches from its parent, the process that runs this command. The parent is
//! often a wrapper: it exits after one runtime command, may be in the cgroup of a container or pod,
//! and has inherited pipes of the engine.
//!
//! Detaching takes two processes. The first process makes inherited descriptors close-on-exec,
//! starts the second one and exits, so that the daemon is not a child that the parent has to wait
//! for. The second process enters the namespaces of the host ([`super::namespaces`]), creates a
//! session, leaves the cgroup, resets what it has inherited ([`super::attributes`]), and is then
//! the daemon. The lock of the state directory allows one daemon only. After a restart, the next
//! program does the same.

use crate::daemon::{attributes, namespaces};
use nri_control::Inherited;
use rustix::process::{DumpableBehavior, Signal, setsid};
use std::{
    fs, io,
    path::PathBuf,
    process::{Command, Stdio},
};

/// Argument of the second process, in place of `--background`.
const SECOND_PROCESS: &str = "--stay";

/// Starts the second process with the same arguments, `--background` replaced.
///
/// # Errors
/// The second process cannot be started.
pub fn start_second() -> io::Result<()> {
    crate::host::sys::close_on_exec_from(3)?;
    let arguments = std::env::args_os()
        .skip(1)
        .map(|a| if a == "--background" { SECOND_PROCESS.into() } else { a });
    Command::new(std::env::current_exe()?)
        .args(arguments)
        .env_clear()
        .envs(std::env::vars_os().filter(|(k, _)| KEPT_VARIABLES.iter().any(|kept| k == kept)))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn()?;
    Ok(())
}

/// Environment variables that the second process keeps. All others come from the engine, and may
/// name the engine's sockets and pipes.
const KEPT_VARIABLES: [&str; 7] = [
    "PATH",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "HOME",
    nri_locate::CONFIG_ENV,
    "LD_LIBRARY_PATH",
];

/// Denies other users access to the files and the memory of this process, because both hold
/// environment variables of containers.
pub fn restrict_access() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    if let Err(error) = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "cannot disable core dumps, which may hold secrets of containers");
    }
}

/// Unblocks all signals, and resets ignored signals to their default actions. Must be called before
/// a second thread exists. Runtimes call hooks with blocked signals, and nohup(1) ignores SIGHUP;
/// `nrid` inherits both from its parent, and launched plugins would inherit them from `nrid`.
pub fn reset_signals() {
    crate::host::sys::reset_signal_actions();
    if let Err(error) = nix::sys::signal::SigSet::empty().thread_set_mask() {
        tracing::warn!(%error, "cannot unblock signals");
    }
}

/// Detaches the second process from the parent: creates a session, clears the parent-death signal,
/// leaves the cgroup, and resets other attributes. Returns what cannot be reset.
pub fn detach() -> Vec<Inherited> {
    // Leaves the parent's terminal and process group. This cannot fail, because this process is
    // not the leader of its process group: the first process is.
    let _ = setsid();
    let _ = rustix::process::set_parent_process_death_signal(None::<Signal>);
    let stays_in = |(file, error): (PathBuf, io::Error)| Inherited {
        what: format!(
            "nrid remains in the cgroup of the process that started it: {}: {error}",
            file.display()
        ),
        effect: "nrid and its plugins share the limits of this cgroup, and end with it".to_owned(),
        remedy: if namespaces::is_of_user() {
            namespaces::START_AS_USER.to_owned()
        } else {
            namespaces::START_AGAIN.to_owned()
        },
    };
    let mut inherited: Vec<_> = leave_cgroup().into_iter().map(stays_in).collect();
    inherited.extend(attributes::reset());
    inherited
}

/// Moves this process to the root of every cgroup hierarchy, and returns the files whose write
/// failed. In the cgroup of a container or pod, `nrid` would share that cgroup's limits and be
/// killed with it.
fn leave_cgroup() -> Vec<(PathBuf, io::Error)> {
    let own_cgroups = crate::host::proc::text("/proc/self/cgroup");
    crate::host::hierarchies::read()
        .into_iter()
        .filter(|hierarchy| {
            nri_cgroup::path_in_hierarchy(&own_cgroups, hierarchy).is_some_and(|path| path != "/")
        })
        .filter_map(|hierarchy| {
            let file = hierarchy.path.join("cgroup.procs");
            fs::write(&file, "0").err().map(|e| (file, e))
        })
        .collect()
}
