//! Started by systemd: the sockets that it listens on for us (sd_listen_fds(3)), and the word that
//! we are ready (sd_notify(3)).
//!
//! With its socket unit plugins can connect before the first container. What the sockets are for is
//! told by their addresses, in [`crate::daemon::sockets`].

use crate::daemon::restart::{self, HANDOVER};
use std::{
    ffi::OsString,
    io,
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram, UnixListener},
        },
    },
    path::PathBuf,
};

/// The first descriptor that is passed.
const FIRST: u32 = 3;
/// Descriptors are few; a larger number is an accident.
const MOST: u32 = 64;

/// What systemd says to the process that it starts, and to no other.
const PID: &str = "LISTEN_PID";
const FDS: &str = "LISTEN_FDS";
const NOTIFY: &str = "NOTIFY_SOCKET";
/// More of the same that is not for those whom we start.
const UNUSED: [&str; 2] = ["LISTEN_FDNAMES", "LISTEN_PIDFDID"];

/// What we were started with.
#[derive(Debug, Default)]
pub struct Activation {
    /// Listening sockets.
    pub sockets: Vec<Passed>,
    /// The lock of the state directory, from the program in whose place we are.
    pub lock: Option<OwnedFd>,
    /// Why another program is not in our place, if one was to be.
    pub failed: Option<String>,
    /// Whom to tell that we are ready.
    pub notify: Option<Notify>,
}

/// A listening socket.
#[derive(Debug)]
pub struct Passed {
    /// Its address.
    pub path: PathBuf,
    /// The socket.
    pub listener: UnixListener,
    /// Which file it is, if it is ours to remove: the program in whose place we are made it.
    pub made: Option<(u64, u64)>,
}

/// Where systemd waits for word.
#[derive(Debug)]
pub struct Notify(OsString);

/// Why the sockets cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ActivationError {
    /// Not a number, or too large.
    #[error("LISTEN_FDS={0:?} is not a number of descriptors")]
    Count(OsString),
    /// Not there.
    #[error("descriptor {0} of LISTEN_FDS: {1}")]
    Descriptor(u32, #[source] io::Error),
    /// Not what the program in whose place we are says.
    #[error("sockets of the program of before: {0}")]
    Handover(#[source] io::Error),
    /// A datagram socket, TCP, a FIFO.
    #[error(
        "descriptor {0} of LISTEN_FDS is no unix stream socket with a path that somebody listens on"
    )]
    Kind(u32),
}

impl Activation {
    /// Takes the descriptors over, and the variables out of the environment. The first thing that a
    /// program does: it may have no other thread yet, nor any descriptor of its own.
    ///
    /// # Errors
    /// They are not what they should be.
    pub fn take() -> Result<Self, ActivationError> {
        let value = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
        let (pid, count, notify) = (value(PID), value(FDS), value(NOTIFY));
        let handover = value(HANDOVER).and_then(|v| v.into_string().ok());
        crate::host::sys::remove_variables(&[PID, FDS, NOTIFY, UNUSED[0], UNUSED[1], HANDOVER]);
        if let Some(handover) = handover {
            return restart::take(&handover).map_err(ActivationError::Handover);
        }
        let ours = pid.is_some_and(|pid| pid == *std::process::id().to_string());
        let mut sockets = Vec::new();
        if let Some(count) = count.filter(|_| ours) {
            let number = count.to_str().and_then(|c| c.parse::<u32>().ok()).filter(|n| *n <= MOST);
            let number = number.ok_or(ActivationError::Count(count))?;
            for fd in FIRST..FIRST + number {
                sockets.push(listener(fd)?);
            }
        }
        Ok(Self { sockets, notify: notify.map(Notify), ..Self::default() })
    }
}

impl Notify {
    /// Says that we answer.
    ///
    /// # Errors
    /// Nobody hears it.
    pub fn ready(&self) -> io::Result<()> {
        let address = match self.0.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(&self.0)?,
        };
        UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address).map(drop)
    }
}

fn listener(fd: u32) -> Result<Passed, ActivationError> {
    use rustix::net::{AddressFamily, SocketType, sockopt};
    // systemd does not set close-on-exec, and plugins must not get it.
    let socket =
        crate::host::sys::take_descriptor(fd).map_err(|e| ActivationError::Descriptor(fd, e))?;
    let fits = sockopt::socket_domain(&socket).is_ok_and(|d| d == AddressFamily::UNIX)
        && sockopt::socket_type(&socket).is_ok_and(|t| t == SocketType::STREAM)
        && sockopt::socket_acceptconn(&socket).is_ok_and(|listens| listens);
    let listener = UnixListener::from(socket);
    let path = listener.local_addr().ok().and_then(|a| a.as_pathname().map(PathBuf::from));
    match path {
        Some(path) if fits => Ok(Passed { path, listener, made: None }),
        _ => Err(ActivationError::Kind(fd)),
    }
}
