//! The launcher: a separate process that drops privileges, then executes a plugin's program.
//!
//! The process applies the privileges to itself in the order in which the kernel still permits each
//! step: namespaces, resource limits, bounding set, groups, user, remaining capability sets. The
//! parent cannot do this between fork and exec: it has threads, and looking up users may block.
//! Standard output is a pipe to the parent: the launcher writes an error to it, and closes it
//! without an error when it executes the plugin's program.
//!
//! Capabilities are set with `rustix`, a dependency anyway, and not with the crate `caps`, a second
//! set of wrappers for the same system calls. The launcher sets effective, permitted and
//! inheritable sets in one `capset`; `caps` reads and writes one set at a time. The launcher drops
//! the bounding set up to the last capability of the running kernel; `caps` would leave
//! capabilities in the set that are newer than its release. The launcher also sets `no_new_privs`,
//! which `caps` cannot do.

use nix::unistd::{Gid, Group, Uid, User, getgrouplist, setgroups, setresgid, setresuid};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
    set_keep_capabilities, set_no_new_privs,
};
use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::launch::exec::without_shell;
use crate::launch::isolation::isolate;
use crate::policy::privileges::{InvalidArgument, Privileges};

/// First argument that makes the program act as the launcher.
pub const ARGUMENT: &str = "--launch";

/// Resource limits by name.
const RLIMITS: [(&str, Resource); 16] = [
    ("as", Resource::As),
    ("core", Resource::Core),
    ("cpu", Resource::Cpu),
    ("data", Resource::Data),
    ("fsize", Resource::Fsize),
    ("locks", Resource::Locks),
    ("memlock", Resource::Memlock),
    ("msgqueue", Resource::Msgqueue),
    ("nice", Resource::Nice),
    ("nofile", Resource::Nofile),
    ("nproc", Resource::Nproc),
    ("rss", Resource::Rss),
    ("rtprio", Resource::Rtprio),
    ("rttime", Resource::Rttime),
    ("sigpending", Resource::Sigpending),
    ("stack", Resource::Stack),
];

/// Reason why the privileges of a plugin could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The arguments are not those that the adaptation passes.
    #[error(transparent)]
    Argument(#[from] InvalidArgument),
    /// The user does not exist.
    #[error("unknown user {0}")]
    NoUser(String),
    /// The numeric user has no passwd entry that names its group.
    #[error("user {0} has no passwd entry, so its group must be given, as in \"{0}:{0}\"")]
    NoGroupOf(String),
    /// The group does not exist.
    #[error("unknown group {0}")]
    NoGroup(String),
    /// The capability does not exist.
    #[error("unknown capability {0}")]
    NoCapability(String),
    /// The resource limit does not exist.
    #[error("unknown resource limit {0}")]
    NoLimit(String),
    /// A system call or a lookup in the user database failed.
    #[error("cannot {action}: {source}")]
    System {
        /// What failed, as in "cannot ACTION".
        action: String,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The program could not be executed.
    #[error("{source}{as_user}", as_user = as_user(user.as_deref()))]
    Exec {
        /// The user of the program, if it has one of its own.
        user: Option<String>,
        /// Cause of the failure.
        source: io::Error,
    },
}

fn as_user(user: Option<&str>) -> String {
    user.map(|user| format!(" (as user {user})")).unwrap_or_default()
}

/// Whether a capability of this name exists.
pub fn knows_capability(name: &str) -> bool {
    capability(name).is_ok()
}

/// Whether a resource limit of this name exists.
pub fn knows_rlimit(name: &str) -> bool {
    rlimit(name).is_ok()
}

/// Applies the privileges and executes the plugin's program; `arguments` are the arguments after
/// [`ARGUMENT`]. Returns only on failure, after writing the error to standard output.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    // Duplicate of standard output with close-on-exec: `attempt` replaces standard output itself.
    let mut parent = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let Err(error) = attempt(arguments.into_iter());
    if let Ok(parent) = &mut parent {
        // A failed write means that the parent has exited.
        let _ = parent.write_all(error.to_string().as_bytes());
    }
    // The exit code of shells for a program that cannot be executed.
    ExitCode::from(126)
}

fn attempt(mut arguments: impl Iterator<Item = OsString>) -> Result<Infallible, LaunchError> {
    let privileges = Privileges::parse(&mut arguments)?;
    let program = arguments.next().map(PathBuf::from).ok_or(InvalidArgument("program".into()))?;
    // The plugin's standard output goes to the same pipe as its standard error.
    rustix::stdio::dup2_stdout(io::stderr()).map_err(system("set standard output"))?;
    if let Some(file) = &privileges.cgroup_procs
        && let Err(error) = std::fs::write(file, "0")
    {
        // No failure: the plugin can run in the cgroup of its parent. Its standard error is logged.
        eprintln!(
            "warning: plugin stays in the cgroup of its parent, cannot write {file}: {error}"
        );
    }
    let account = account(&privileges)?;
    let kept = privileges.capabilities.as_deref().map(capability_set).transpose()?;
    if privileges.isolated {
        // After the look-up of the user, which may need the network.
        isolate().map_err(system("isolate the plugin from network and /sys"))?;
    }
    if let Some(soft) = privileges.soft_nofile {
        let hard = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum: hard })
            .map_err(system("set the soft limit of open files"))?;
    }
    for (name, limit) in &privileges.rlimits {
        let resource = rlimit(name)?;
        setrlimit(resource, Rlimit { current: *limit, maximum: *limit })
            .map_err(system(&format!("set the resource limit {name}")))?;
    }
    if let Some(kept) = kept {
        limit_bounding_set(kept, privileges.no_new_privs)?;
    }
    if let Some(account) = account {
        set_keep_capabilities(kept.is_some()).map_err(system("keep capabilities"))?;
        setgroups(&account.groups).map_err(system("set groups"))?;
        let (gid, uid) = (account.gid, account.uid);
        setresgid(gid, gid, gid).map_err(system(&format!("become group {gid}")))?;
        setresuid(uid, uid, uid).map_err(system(&format!("become user {uid}")))?;
    }
    if let Some(kept) = kept {
        set_capability_sets(kept)?;
    }
    if privileges.no_new_privs {
        set_no_new_privs(true).map_err(system("set no_new_privs"))?;
    }
    let mut command = Command::new(program);
    command.args(arguments);
    let executable = privileges.executable.as_deref();
    let error = match without_shell(&mut command, executable, std::env::vars_os()) {
        Ok(()) => command.exec(),
        Err(error) => error,
    };
    Err(LaunchError::Exec { user: privileges.user, source: error })
}

/// Drops all capabilities but `kept` from the bounding set.
///
/// A process without CAP_SETPCAP cannot do this. With `no_new_privs` it may keep the bounding set:
/// a program that it executes gets only capabilities of the permitted set, which the launcher
/// limits to `kept`.
fn limit_bounding_set(kept: CapabilitySet, no_new_privs: bool) -> Result<(), LaunchError> {
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if kept.contains(one) {
            continue;
        }
        match remove_capability_from_bounding_set(one) {
            // Beyond the last capability of the kernel.
            Err(rustix::io::Errno::INVAL) => break,
            // The process runs as another user than root, or without CAP_SETPCAP.
            Err(rustix::io::Errno::PERM) if no_new_privs => break,
            result => result.map_err(system("drop capabilities"))?,
        }
    }
    Ok(())
}

/// Sets these capabilities and no others, in the ambient set too, so that the program of a non-root
/// user keeps them.
fn set_capability_sets(kept: CapabilitySet) -> Result<(), LaunchError> {
    let refused = || system("set capabilities");
    clear_ambient_capability_set().map_err(refused())?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: kept };
    set_capabilities(None, sets).map_err(refused())?;
    for one in kept.iter() {
        configure_capability_in_ambient_set(one, true).map_err(refused())?;
    }
    Ok(())
}

struct Account {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

/// Returns the user and groups that the plugin runs as; `None` keeps those of this process.
fn account(privileges: &Privileges) -> Result<Option<Account>, LaunchError> {
    let Some(name) = &privileges.user else { return Ok(None) };
    let lookup_failed = |error: nix::Error| system(&format!("look up user {name}"))(error);
    let number = name.parse().ok().map(Uid::from_raw);
    let known = match number {
        Some(uid) => User::from_uid(uid),
        None => User::from_name(name),
    };
    let known = known.map_err(lookup_failed)?;
    let uid = number
        .or(known.as_ref().map(|user| user.uid))
        .ok_or_else(|| LaunchError::NoUser(name.clone()))?;
    if let Some(group) = &privileges.group {
        let gid = group_of(group)?;
        return Ok(Some(Account { uid, gid, groups: vec![gid] }));
    }
    let known = known.ok_or_else(|| LaunchError::NoGroupOf(name.clone()))?;
    let login = CString::new(known.name).map_err(|_| LaunchError::NoUser(name.clone()))?;
    let groups = getgrouplist(&login, known.gid).map_err(lookup_failed)?;
    Ok(Some(Account { uid, gid: known.gid, groups }))
}

fn group_of(name: &str) -> Result<Gid, LaunchError> {
    if let Ok(gid) = name.parse() {
        return Ok(Gid::from_raw(gid));
    }
    let known = Group::from_name(name).map_err(|e| system(&format!("look up group {name}"))(e))?;
    known.map(|group| group.gid).ok_or_else(|| LaunchError::NoGroup(name.to_owned()))
}

fn capability_set(names: &[String]) -> Result<CapabilitySet, LaunchError> {
    names.iter().map(|name| capability(name)).collect()
}

fn capability(name: &str) -> Result<CapabilitySet, LaunchError> {
    CapabilitySet::from_name(&name.to_ascii_uppercase())
        .ok_or_else(|| LaunchError::NoCapability(name.to_owned()))
}

fn rlimit(name: &str) -> Result<Resource, LaunchError> {
    let found = RLIMITS.iter().find(|(known, _)| *known == name);
    found.map(|(_, resource)| *resource).ok_or_else(|| LaunchError::NoLimit(name.to_owned()))
}

/// Returns a conversion of an error into [`LaunchError::System`], where `what` failed.
fn system<E: Into<io::Error>>(what: &str) -> impl FnOnce(E) -> LaunchError {
    let what = what.to_owned();
    move |error| LaunchError::System { action: what, source: error.into() }
}
