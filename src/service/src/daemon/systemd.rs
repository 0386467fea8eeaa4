//! Socket activation by systemd (sd_listen_fds(3)). With the socket unit, plugins can connect
//! before the first container is created. `nrid` recognizes each passed socket by its path.

use crate::{
    daemon::handover::{self, HANDOVER},
    host::sys,
    process::activation::{Activation, Notify, PassedSocket},
};
use rustix::net::{AddressFamily, SocketType, sockopt};
use std::{ffi::OsString, io, os::unix::net::UnixListener, path::PathBuf};

/// The first passed descriptor, `SD_LISTEN_FDS_START`.
const FIRST_DESCRIPTOR: u32 = 3;
/// Maximum number of passed descriptors. The socket unit of `nrid` has two sockets, so a larger
/// number is a mistake.
const MAX_DESCRIPTORS: u32 = 64;

/// Environment variables that systemd sets for the started process.
const PID: &str = "LISTEN_PID";
const FDS: &str = "LISTEN_FDS";
const NOTIFY: &str = "NOTIFY_SOCKET";
/// Environment variables of systemd that are not used here, and must not reach plugins.
const UNUSED: [&str; 2] = ["LISTEN_FDNAMES", "LISTEN_PIDFDID"];

/// Failure to use passed descriptors.
#[derive(Debug, thiserror::Error)]
pub enum ActivationError {
    /// `LISTEN_FDS` is not a number, or too large.
    #[error("LISTEN_FDS={0:?} is not a number of descriptors")]
    Count(OsString),
    /// A descriptor is not open.
    #[error("descriptor {0} of LISTEN_FDS: {1}")]
    Descriptor(u32, #[source] io::Error),
    /// The descriptors that the replaced program passed do not match its description of them.
    #[error("sockets of the previous program: {0}")]
    Handover(#[source] io::Error),
    /// A descriptor is not a listening unix stream socket, but for example a FIFO.
    #[error("descriptor {0} of LISTEN_FDS is not a listening unix stream socket with a path")]
    Kind(u32),
}

/// Takes the passed descriptors, and removes the variables from the environment. Must be called
/// first: the process must not have another thread or other descriptors yet.
///
/// # Errors
/// The descriptors cannot be used.
pub fn take() -> Result<Activation, ActivationError> {
    let value = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    let (pid, count, notify) = (value(PID), value(FDS), value(NOTIFY));
    let handover = value(HANDOVER).and_then(|v| v.into_string().ok());
    sys::remove_variables(&[PID, FDS, NOTIFY, UNUSED[0], UNUSED[1], HANDOVER]);
    if let Some(handover) = handover {
        return handover::take(&handover).map_err(ActivationError::Handover);
    }
    let is_for_this_process = pid.is_some_and(|pid| pid == *std::process::id().to_string());
    let mut sockets = Vec::new();
    if let Some(count) = count.filter(|_| is_for_this_process) {
        let number = count.to_str().and_then(|c| c.parse::<u32>().ok());
        let number = number.filter(|n| *n <= MAX_DESCRIPTORS);
        let number = number.ok_or(ActivationError::Count(count))?;
        for fd in FIRST_DESCRIPTOR..FIRST_DESCRIPTOR + number {
            sockets.push(listener(fd)?);
        }
    }
    Ok(Activation { sockets, notify: notify.map(Notify), ..Activation::default() })
}

fn listener(fd: u32) -> Result<PassedSocket, ActivationError> {
    // systemd does not set close-on-exec, and plugins must not inherit the socket.
    let socket = sys::take_descriptor(fd).map_err(|e| ActivationError::Descriptor(fd, e))?;
    let is_usable = sockopt::socket_domain(&socket).is_ok_and(|d| d == AddressFamily::UNIX)
        && sockopt::socket_type(&socket).is_ok_and(|t| t == SocketType::STREAM)
        && sockopt::socket_acceptconn(&socket).is_ok_and(|listens| listens);
    let listener = UnixListener::from(socket);
    let path = listener.local_addr().ok().and_then(|a| a.as_pathname().map(PathBuf::from));
    match path {
        Some(path) if is_usable => Ok(PassedSocket { path, listener, created: None }),
        _ => Err(ActivationError::Kind(fd)),
    }
}
