//! Who is at the other end of a connection, and whether they may be.
//!
//! The socket's place keeps strangers away; this is for sockets in shared places, and for programs
//! that were not meant. What the plugin may change once it is in is another matter
//! ([`crate::permissions`]).

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

use crate::config::PeerPolicy;

/// Why somebody may not connect.
#[derive(Debug, thiserror::Error)]
pub enum PeerRefusal {
    /// The kernel does not tell who it is.
    #[error("refused: it cannot be told who connects: {0}")]
    Unknown(#[source] io::Error),
    /// A user who may not.
    #[error("refused: user {0} may not connect; [connections] allow_uids could allow it")]
    User(u32),
    /// A program that may not.
    #[error("refused: {} may not connect; [connections] allow_programs does not have it", .0.display())]
    Program(PathBuf),
    /// A program that cannot be looked at, or is gone already.
    #[error("refused: its program cannot be told: {0}")]
    NoProgram(#[source] io::Error),
    /// An allowed program that others could replace.
    #[error("refused: its program is allowed, and not relied upon: {0}")]
    Untrusted(#[source] Untrusted),
    /// Too many who have not registered.
    #[error(
        "refused: {0} connections wait for their registration already, as many as [connections] max_unregistered allows"
    )]
    Unregistered(usize),
    /// Too many plugins.
    #[error("refused: there are {0} plugins already, as many as [connections] max_plugins allows")]
    Plugins(usize),
}

/// The process that connected.
pub(crate) struct Peer {
    pub(crate) pid: Option<u32>,
    uid: u32,
    /// Holds the process id: as long as the process that it stands for is there, the id is not
    /// another's.
    process: Option<OwnedFd>,
}

impl Peer {
    /// Asks the kernel. With Linux 6.5 and later, the process is the very one that connected.
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

    /// Whether the user, and the program, are among those that may connect.
    pub(crate) fn check(&self, policy: &PeerPolicy) -> Result<(), PeerRefusal> {
        if !Owners::of_this_process().contains(self.uid) && !policy.uids.contains(&self.uid) {
            return Err(PeerRefusal::User(self.uid));
        }
        let Some(programs) = &policy.programs else { return Ok(()) };
        let (runs, file) = self.program().map_err(PeerRefusal::NoProgram)?;
        // The same file, whatever it is called in the namespaces of its process.
        let same =
            |program: &&PathBuf| fs::metadata(program).is_ok_and(|m| (m.dev(), m.ino()) == file);
        let program = programs.iter().find(same).ok_or(PeerRefusal::Program(runs))?;
        Owners::of_this_process().check(program).map_err(PeerRefusal::Untrusted)
    }

    /// The user, if that is neither root nor the one that we run as.
    pub(crate) fn stranger(&self) -> Option<u32> {
        (!Owners::of_this_process().contains(self.uid)).then_some(self.uid)
    }

    /// The program's name, and its file's device and number.
    fn program(&self) -> io::Result<(PathBuf, (u64, u64))> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let (Some(pid), Some(process)) = (self.pid, &self.process) else { return Err(gone()) };
        let exe = format!("/proc/{pid}/exe");
        let exe = Path::new(&exe);
        let meta = fs::metadata(exe)?;
        let name = fs::read_link(exe)?;
        // Readable: it has ended, and what was read may be another's who has the id now.
        let mut ended = [PollFd::new(process, PollFlags::IN)];
        if poll(&mut ended, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? != 0 {
            return Err(gone());
        }
        Ok((name, (meta.dev(), meta.ino())))
    }
}
