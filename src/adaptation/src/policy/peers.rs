//! Identity of the process at the other end of a connection, and whether it may connect.
//!
//! Usually the permissions of the socket's directory exclude other users. This check is for sockets
//! in shared directories, and excludes programs that the operator did not allow. Which changes a
//! connected plugin may request is decided by [`crate::policy::permissions`].

use nix::sys::socket::{getsockopt, sockopt};
use nri_trust::{Owners, Untrusted};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use tokio::net::UnixStream;

/// Users and programs that may connect, and limits of connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerPolicy {
    /// Users that may connect in addition to root and the user of this process.
    pub allow_uids: Vec<u32>,
    /// Programs that may connect; `None` allows any. This guards against accidents, not attacks: a
    /// user that may connect can let an allowed program inherit the connection.
    pub allow_programs: Option<Vec<PathBuf>>,
    /// Limit of connections that have not registered yet. A quarter of them, rounded up, may be of
    /// one process, one user other than root and that of this process, or one pid namespace other
    /// than that of this process, such as a container. A quarter is kept for this process's pid
    /// namespace.
    pub max_unregistered: usize,
    /// Limit of plugins, launched ones included. A quarter is kept for plugins with a policy of
    /// their own, and those that the built-in validator requires. External plugins of one group,
    /// as above, have a quarter, too: otherwise one container could take the places of all others.
    pub max_plugins: usize,
}

impl Default for PeerPolicy {
    fn default() -> Self {
        Self {
            allow_uids: Vec::new(),
            allow_programs: None,
            max_unregistered: 64,
            max_plugins: 256,
        }
    }
}

/// Part of the places that is kept for some: a quarter. Also the share of one group of peers.
const SHARE: usize = 4;

impl PeerPolicy {
    /// Checks whether a further connection of `group` may wait for its registration, besides those
    /// of `waiting`. `None` is a connection whose peer was not checked.
    pub(crate) fn check_unregistered(
        &self,
        group: Option<PeerGroup>,
        waiting: &[Option<PeerGroup>],
    ) -> Result<(), PeerRefusal> {
        if waiting.len() >= self.max_unregistered {
            return Err(PeerRefusal::Unregistered(waiting.len()));
        }
        let Some(group) = group else { return Ok(()) };
        let of_group = waiting.iter().filter(|other| **other == Some(group)).count();
        if of_group >= self.max_unregistered.div_ceil(SHARE) {
            return Err(PeerRefusal::UnregisteredOfPeer { connections: of_group, group });
        }
        let elsewhere = waiting.iter().flatten().filter(|other| other.is_elsewhere()).count();
        if group.is_elsewhere()
            && elsewhere >= self.max_unregistered - self.max_unregistered / SHARE
        {
            return Err(PeerRefusal::UnregisteredElsewhere(elsewhere));
        }
        Ok(())
    }

    /// Checks whether a further plugin of `group` may register, besides those of `plugins`. `None`
    /// is a launched plugin, or one whose peer was not checked. `has_policy`: the places that are
    /// kept are for its name.
    pub(crate) fn check_plugins(
        &self,
        group: Option<PeerGroup>,
        plugins: &[Option<PeerGroup>],
        has_policy: bool,
    ) -> Result<(), PeerRefusal> {
        let all = plugins.len();
        if all >= self.max_plugins {
            return Err(PeerRefusal::Plugins(all));
        }
        if !has_policy && all >= self.max_plugins - self.max_plugins / SHARE {
            return Err(PeerRefusal::PluginsWithoutPolicy(all));
        }
        let Some(group) = group else { return Ok(()) };
        let of_group = plugins.iter().filter(|other| **other == Some(group)).count();
        if of_group >= self.max_plugins.div_ceil(SHARE) {
            return Err(PeerRefusal::PluginsOfPeer { plugins: of_group, group });
        }
        Ok(())
    }
}

/// The peers that share a part of the places for connections and plugins, and of the time that a
/// request has for plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerGroup {
    /// A process of root or of our user, in the pid namespace of this process.
    Process(u32),
    /// The processes of another user, in the pid namespace of this process.
    User(u32),
    /// The processes of another pid namespace, such as a container, by its device and inode.
    Namespace(u64, u64),
    /// The processes of which the pid namespace is unknown, for example because they have ended.
    Unknown,
}

impl PeerGroup {
    fn is_elsewhere(self) -> bool {
        !matches!(self, Self::Process(_) | Self::User(_))
    }
}

impl fmt::Display for PeerGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(pid) => write!(f, "process {pid}"),
            Self::User(uid) => write!(f, "user {uid}"),
            Self::Namespace(_, inode) => write!(f, "pid namespace {inode}, such as a container,"),
            Self::Unknown => f.write_str("processes in unknown pid namespaces"),
        }
    }
}

/// Reason why a connection is refused.
#[derive(Debug, thiserror::Error)]
pub enum PeerRefusal {
    /// The kernel does not report the peer's credentials.
    #[error("refused: credentials of the peer unknown: {0}")]
    Unknown(#[source] io::Error),
    /// The user may not connect.
    #[error("refused: user {0} may not connect; to allow this, add {0} to allow_uids")]
    User(u32),
    /// The program may not connect.
    #[error("refused: {} may not connect; it is not in allow_programs", .0.display())]
    Program(PathBuf),
    /// The peer's program cannot be read from `/proc`, or has exited.
    #[error("refused: program of the peer unknown: {0}")]
    NoProgram(#[source] io::Error),
    /// The program is allowed, but other users can replace it.
    #[error("refused: program is allowed but not trusted: {0}")]
    Untrusted(#[source] Untrusted),
    /// The limit of unregistered connections is reached.
    #[error("refused: {0} connections have not registered yet, the limit of max_unregistered")]
    Unregistered(usize),
    /// One group of peers has its share of the places.
    #[error(
        "refused: {connections} connections of {group} have not registered yet, its part of \
         max_unregistered"
    )]
    UnregisteredOfPeer {
        /// Number of connections of the group.
        connections: usize,
        /// The group of peers.
        group: PeerGroup,
    },
    /// Peers in other pid namespaces have their share of the places.
    #[error(
        "refused: {0} connections of containers have not registered yet; the other places of \
         max_unregistered are kept for plugins of the host"
    )]
    UnregisteredElsewhere(usize),
    /// The other places are kept for plugins with a policy.
    #[error(
        "refused: {0} plugins are connected; the other places of max_plugins are kept for plugins \
         with a policy of their own"
    )]
    PluginsWithoutPolicy(usize),
    /// One group of peers has its share of the places.
    #[error("refused: {plugins} plugins of {group} are connected, its part of max_plugins")]
    PluginsOfPeer {
        /// Number of plugins of the group.
        plugins: usize,
        /// The group of peers.
        group: PeerGroup,
    },
    /// The limit of plugins is reached.
    #[error("refused: {0} plugins are connected, the limit of max_plugins")]
    Plugins(usize),
}

/// A process that may connect.
#[derive(Debug)]
pub(crate) struct CheckedPeer {
    /// User of the process.
    pub(crate) uid: u32,
    /// Cgroup of the systemd service that runs the process, if one does.
    pub(crate) service: Option<String>,
}

/// Process at the other end of a connection.
pub(crate) struct Peer {
    pub(crate) pid: Option<u32>,
    pub(crate) uid: u32,
    /// Pidfd of the process. While it is not readable, the pid still names the process.
    process: Option<OwnedFd>,
}

impl Peer {
    /// Reads the peer's credentials. On Linux 6.5 and later (SO_PEERPIDFD) the pidfd refers to
    /// the process that connected, even if its pid was reused.
    pub(crate) fn of(stream: &UnixStream) -> Result<Self, PeerRefusal> {
        let cred = stream.peer_cred().map_err(PeerRefusal::Unknown)?;
        let pid = cred.pid().and_then(Pid::from_raw);
        let exact = getsockopt(stream, sockopt::PeerPidfd).ok();
        let process = exact.or_else(|| pidfd_open(pid?, PidfdFlags::empty()).ok());
        Ok(Self {
            pid: cred.pid().and_then(|pid| u32::try_from(pid).ok()),
            uid: cred.uid(),
            process,
        })
    }

    /// Returns the group with which the peer shares places.
    pub(crate) fn group(&self) -> PeerGroup {
        let namespace = |process: &str| {
            fs::metadata(format!("/proc/{process}/ns/pid")).map(|meta| (meta.dev(), meta.ino()))
        };
        let found = self.pid.and_then(|pid| Some((pid, namespace(&pid.to_string()).ok()?)));
        match found {
            Some((pid, found)) if namespace("self").is_ok_and(|own| own == found) => {
                if Owners::of_this_process().contains(self.uid) {
                    PeerGroup::Process(pid)
                } else {
                    PeerGroup::User(self.uid)
                }
            }
            Some((_, (device, inode))) => PeerGroup::Namespace(device, inode),
            None => PeerGroup::Unknown,
        }
    }

    /// Checks the user and the program against the policy.
    pub(crate) fn check(&self, policy: &PeerPolicy) -> Result<(), PeerRefusal> {
        if !Owners::of_this_process().contains(self.uid) && !policy.allow_uids.contains(&self.uid) {
            return Err(PeerRefusal::User(self.uid));
        }
        let Some(programs) = &policy.allow_programs else { return Ok(()) };
        let (path, file) = self.program().map_err(PeerRefusal::NoProgram)?;
        // Compares files, not paths: the peer may have another mount namespace.
        let is_same =
            |program: &&PathBuf| fs::metadata(program).is_ok_and(|m| (m.dev(), m.ino()) == file);
        let program = programs.iter().find(is_same).ok_or(PeerRefusal::Program(path))?;
        Owners::of_this_process().check(program).map_err(PeerRefusal::Untrusted)
    }

    /// Returns the cgroup of the systemd service that runs the process; `None` if none does, or the
    /// process has exited.
    pub(crate) fn service(&self) -> Option<String> {
        let read = |process: &str| fs::read_to_string(format!("{process}/cgroup"));
        service_of(&self.read(read).ok()?)
    }

    /// Returns the path of the peer's program, and the file's device and inode.
    fn program(&self) -> io::Result<(PathBuf, (u64, u64))> {
        self.read(|process| {
            let exe = format!("{process}/exe");
            let meta = fs::metadata(&exe)?;
            Ok((fs::read_link(&exe)?, (meta.dev(), meta.ino())))
        })
    }

    /// Reads from the directory of the process in `/proc`.
    fn read<T>(&self, read: impl FnOnce(&str) -> io::Result<T>) -> io::Result<T> {
        let not_found = |reason| io::Error::new(io::ErrorKind::NotFound, reason);
        let (Some(pid), Some(process)) = (self.pid, &self.process) else {
            return Err(not_found("the peer's process cannot be identified"));
        };
        let found = read(&format!("/proc/{pid}"))?;
        // A readable pidfd means that the process exited; the pid, and the values read through
        // it, may belong to another process by now.
        let mut pidfd = [PollFd::new(process, PollFlags::IN)];
        if poll(&mut pidfd, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? != 0 {
            return Err(not_found("the process has exited"));
        }
        Ok(found)
    }
}

/// Returns the cgroup of a systemd service from a file `cgroup` of `/proc`.
fn service_of(cgroups: &str) -> Option<String> {
    let of_systemd = |line: &'_ str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        // The second is that of cgroup v2, which is empty of services on hosts with v1.
        ["name=systemd", ""].contains(&controllers).then(|| path.to_owned())
    };
    cgroups.lines().filter_map(of_systemd).find(|path| path.ends_with(".service"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: PeerGroup = PeerGroup::Process(7);
    const CONTAINER: PeerGroup = PeerGroup::Namespace(4, 1);

    #[test]
    fn containers_leave_places_to_each_other_and_to_the_host() {
        let policy = PeerPolicy { max_unregistered: 8, ..PeerPolicy::default() };
        let mut waiting = Vec::new();
        // Adds connections of this group until one is refused, and returns the refusal.
        let mut fill = |group: PeerGroup| loop {
            match policy.check_unregistered(Some(group), &waiting) {
                Ok(()) => waiting.push(Some(group)),
                Err(refused) => break (waiting.len(), refused.to_string()),
            }
        };
        let part = "have not registered yet, its part of max_unregistered";
        let namespace = format!("2 connections of pid namespace 1, such as a container, {part}");
        assert_eq!(fill(CONTAINER), (2, format!("refused: {namespace}")));
        assert_eq!(fill(PeerGroup::Namespace(4, 2)).0, 4);
        assert_eq!(fill(PeerGroup::Unknown).0, 6);
        let kept = "refused: 6 connections of containers have not registered yet; the other places \
                    of max_unregistered are kept for plugins of the host";
        assert_eq!(fill(PeerGroup::Namespace(4, 3)), (6, kept.to_owned()));
        let full = "refused: 8 connections have not registered yet, the limit of max_unregistered";
        assert_eq!(fill(HOST), (8, full.to_owned()));
        let refused = policy.check_unregistered(Some(HOST), &[Some(HOST); 2]).unwrap_err();
        assert_eq!(refused.to_string(), format!("refused: 2 connections of process 7 {part}"));
    }

    #[test]
    fn a_service_is_known_by_its_cgroup() {
        for (cgroups, expected) in [
            ("0::/system.slice/a.service\n", Some("/system.slice/a.service")),
            (
                "2:pids:/x.service\n1:name=systemd:/system.slice/a.service\n0::/\n",
                Some("/system.slice/a.service"),
            ),
            ("0::/user.slice/user-0.slice/session-1.scope\n", None),
            ("0::/user.slice/user-1.slice/user@1.service/app.slice/a.scope\n", None),
            ("", None),
        ] {
            assert_eq!(service_of(cgroups).as_deref(), expected, "{cgroups}");
        }
    }

    #[test]
    fn a_small_limit_leaves_one_place_to_each_group() {
        let policy = PeerPolicy { max_unregistered: 1, ..PeerPolicy::default() };
        assert!(policy.check_unregistered(Some(CONTAINER), &[]).is_ok());
        assert!(policy.check_unregistered(Some(HOST), &[Some(CONTAINER)]).is_err());
    }

    #[test]
    fn some_places_are_kept_for_plugins_with_a_policy() {
        let policy = PeerPolicy { max_plugins: 8, ..PeerPolicy::default() };
        let check = |plugins: usize, has_policy| {
            policy.check_plugins(Some(HOST), &vec![Some(CONTAINER); plugins], has_policy)
        };
        assert!(check(5, false).is_ok());
        let refused = check(6, false).unwrap_err();
        assert!(matches!(refused, PeerRefusal::PluginsWithoutPolicy(6)), "{refused}");
        assert!(check(7, true).is_ok());
        assert!(matches!(check(8, true), Err(PeerRefusal::Plugins(8))));
    }

    /// One process took 192 of 256 places.
    #[test]
    fn plugins_of_one_peer_leave_places_for_those_of_others() {
        let policy = PeerPolicy::default();
        let mut plugins = vec![None; 2];
        while policy.check_plugins(Some(CONTAINER), &plugins, false).is_ok() {
            plugins.push(Some(CONTAINER));
        }
        assert_eq!(plugins.len(), 2 + 64);
        // Nor does a name with a policy give it more: such a name may be one for all indices.
        let refused = policy.check_plugins(Some(CONTAINER), &plugins, true).unwrap_err();
        let expected = "refused: 64 plugins of pid namespace 1, such as a container, are \
                        connected, its part of max_plugins";
        assert_eq!(refused.to_string(), expected);
        for other in [Some(HOST), Some(PeerGroup::Namespace(4, 2)), None] {
            assert!(policy.check_plugins(other, &plugins, false).is_ok());
        }
    }
}
