//! Identity of the process at the other end of a connection, and whether it may connect.
//!
//! Usually the permissions of the socket's directory exclude other users. This check is for sockets
//! in shared directories, and excludes programs that the operator did not allow. Which changes a
//! connected plugin may request is decided by [`crate::policy::permissions`].

use nix::sys::socket::{getsockopt, sockopt};
use nri_trust::{Owners, Untrusted};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tokio::net::UnixStream;

/// Users and programs that may connect, and limits of connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerPolicy {
    /// Users that may connect in addition to root and the user of this process.
    pub allow_uids: Vec<u32>,
    /// Programs that may connect; `None` allows any. This guards against accidents, not attacks: a
    /// user that may connect can let an allowed program inherit the connection.
    pub allow_programs: Option<Vec<PathBuf>>,
    /// Limit of connections that have not registered yet.
    pub max_unregistered: usize,
    /// Limit of plugins, launched ones included.
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
    /// The limit of plugins is reached.
    #[error("refused: {0} plugins are connected, the limit of max_plugins")]
    Plugins(usize),
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

    /// Returns the path of the peer's program, and the file's device and inode.
    fn program(&self) -> io::Result<(PathBuf, (u64, u64))> {
        let not_found = |reason| io::Error::new(io::ErrorKind::NotFound, reason);
        let (Some(pid), Some(process)) = (self.pid, &self.process) else {
            return Err(not_found("the peer's process cannot be identified"));
        };
        let exe = format!("/proc/{pid}/exe");
        let exe = Path::new(&exe);
        let meta = fs::metadata(exe)?;
        let path = fs::read_link(exe)?;
        // A readable pidfd means that the process exited; the pid, and the values read through
        // it, may belong to another process by now.
        let mut pidfd = [PollFd::new(process, PollFlags::IN)];
        if poll(&mut pidfd, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? != 0 {
            return Err(not_found("the process has exited"));
        }
        Ok((path, (meta.dev(), meta.ino())))
    }
}
