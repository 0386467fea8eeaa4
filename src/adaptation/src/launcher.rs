//! The program that gives up privileges and then becomes a plugin: what has to be done between fork
//! and exec, without being between fork and exec.
//!
//! A process of its own does it to itself, in the order in which it still may: limits, capabilities
//! that are not kept, groups, user, the capabilities that are. No code runs in a forked copy of a
//! process with threads, and names of users are looked up where that may take its time. Its
//! standard output is a pipe to whoever started it: it closes without a word when the plugin's
//! program took over.

use nix::unistd::{Gid, Group, Uid, User, getgrouplist, setgroups, setresgid, setresuid};
use rustix::process::{Resource, Rlimit, setrlimit};
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

use crate::privileges::{InvalidArgument, Privileges};

/// The first argument of a program that is to be the launcher.
pub const ARGUMENT: &str = "--launch";

/// The names by which resource limits go.
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

/// Why a plugin could not be given its privileges.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// Not called by us.
    #[error(transparent)]
    Argument(#[from] InvalidArgument),
    /// No such user.
    #[error("there is no user {0}")]
    NoUser(String),
    /// A user without an entry has no group either.
    #[error("user {0} is not known here, and so its group is not: give one, as in \"{0}:{0}\"")]
    NoGroupOf(String),
    /// No such group.
    #[error("there is no group {0}")]
    NoGroup(String),
    /// No such capability.
    #[error("there is no capability {0}")]
    NoCapability(String),
    /// No such resource limit.
    #[error("there is no resource limit {0}")]
    NoLimit(String),
    /// The kernel, or the user database, refuses.
    #[error("cannot {0}: {1}")]
    System(String, #[source] io::Error),
    /// The program itself.
    #[error("{0}{as_user}", as_user = .1.as_deref().map(|user| format!(" (as user {user})")).unwrap_or_default())]
    Exec(#[source] io::Error, Option<String>),
}

/// Whether a capability of this name can be kept.
pub fn knows_capability(name: &str) -> bool {
    capability(name).is_ok()
}

/// Whether a resource limit of this name can be set.
pub fn knows_rlimit(name: &str) -> bool {
    rlimit(name).is_ok()
}

/// Becomes the plugin; `arguments` are those after [`ARGUMENT`]. Returns only where that failed,
/// and has told why.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    // Closed by exec, unlike the standard output that it is made of.
    let mut told = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let Err(error) = attempt(arguments.into_iter());
    if let Ok(told) = &mut told {
        // If nobody hears it, nobody waits for it.
        let _ = told.write_all(error.to_string().as_bytes());
    }
    ExitCode::from(126)
}

fn attempt(mut arguments: impl Iterator<Item = OsString>) -> Result<Infallible, LaunchError> {
    let privileges = Privileges::parse(&mut arguments)?;
    let program = arguments.next().map(PathBuf::from).ok_or(InvalidArgument("program".into()))?;
    // From here on both of the plugin's outputs are what our standard error is.
    rustix::stdio::dup2_stdout(io::stderr()).map_err(system("set standard output"))?;
    let account = account(&privileges)?;
    let kept = privileges.capabilities.as_deref().map(kept).transpose()?;
    for (name, limit) in &privileges.rlimits {
        let resource = rlimit(name)?;
        setrlimit(resource, Rlimit { current: *limit, maximum: *limit })
            .map_err(system(&format!("set the resource limit {name}")))?;
    }
    if let Some(kept) = kept {
        bound(kept)?;
    }
    if let Some(account) = account {
        set_keep_capabilities(kept.is_some()).map_err(system("keep capabilities"))?;
        let refused = |what: &str, error: nix::Error| system(what)(error);
        setgroups(&account.groups).map_err(|e| refused("set groups", e))?;
        let (gid, uid) = (account.gid, account.uid);
        setresgid(gid, gid, gid).map_err(|e| refused(&format!("become group {gid}"), e))?;
        setresuid(uid, uid, uid).map_err(|e| refused(&format!("become user {uid}"), e))?;
    }
    if let Some(kept) = kept {
        hold(kept)?;
    }
    if privileges.no_new_privs {
        set_no_new_privs(true).map_err(system("set no_new_privs"))?;
    }
    Err(LaunchError::Exec(Command::new(program).exec(), privileges.user))
}

/// Takes away what may ever be had beyond these.
fn bound(kept: CapabilitySet) -> Result<(), LaunchError> {
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if kept.contains(one) {
            continue;
        }
        match remove_capability_from_bounding_set(one) {
            // A number that the kernel has no capability for.
            Err(rustix::io::Errno::INVAL) => break,
            result => result.map_err(system("drop capabilities"))?,
        }
    }
    Ok(())
}

/// Has these and no others, also in the program that is run next and for a user who is not root.
fn hold(kept: CapabilitySet) -> Result<(), LaunchError> {
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

fn account(privileges: &Privileges) -> Result<Option<Account>, LaunchError> {
    let Some(name) = &privileges.user else { return Ok(None) };
    let asked = |error: nix::Error| system(&format!("look up user {name}"))(error);
    let number = name.parse().ok().map(Uid::from_raw);
    let known = match number {
        Some(uid) => User::from_uid(uid),
        None => User::from_name(name),
    };
    let known = known.map_err(asked)?;
    let uid = number
        .or(known.as_ref().map(|user| user.uid))
        .ok_or_else(|| LaunchError::NoUser(name.clone()))?;
    if let Some(group) = &privileges.group {
        let gid = group_of(group)?;
        return Ok(Some(Account { uid, gid, groups: vec![gid] }));
    }
    let known = known.ok_or_else(|| LaunchError::NoGroupOf(name.clone()))?;
    let login = CString::new(known.name).map_err(|_| LaunchError::NoUser(name.clone()))?;
    let groups = getgrouplist(&login, known.gid).map_err(asked)?;
    Ok(Some(Account { uid, gid: known.gid, groups }))
}

fn group_of(name: &str) -> Result<Gid, LaunchError> {
    if let Ok(gid) = name.parse() {
        return Ok(Gid::from_raw(gid));
    }
    let known = Group::from_name(name).map_err(|e| system(&format!("look up group {name}"))(e))?;
    known.map(|group| group.gid).ok_or_else(|| LaunchError::NoGroup(name.to_owned()))
}

fn kept(names: &[String]) -> Result<CapabilitySet, LaunchError> {
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

fn system<E: Into<io::Error>>(what: &str) -> impl FnOnce(E) -> LaunchError {
    let what = what.to_owned();
    move |error| LaunchError::System(what, error.into())
}
