//! Socket activation by systemd (sd_listen_fds(3)). With the socket unit, plugins can connect
//! before the first container. The path of a socket tells what it is for.

use crate::{
    daemon::{
        activation::{Activation, Notify, PassedSocket},
        handover::{self, HANDOVER},
    },
    host::sys,
};
use rustix::net::{AddressFamily, SocketType, sockopt};
use std::{ffi::OsString, io, os::unix::net::UnixListener, path::PathBuf};

/// The first passed descriptor.
const FIRST: u32 = 3;
/// Descriptors that a unit may pass; ours has two sockets. A larger number is an accident.
const MAX_DESCRIPTORS: u32 = 64;

/// Variables of systemd for the process that it starts.
const PID: &str = "LISTEN_PID";
const FDS: &str = "LISTEN_FDS";
const NOTIFY: &str = "NOTIFY_SOCKET";
/// Variables of systemd that are not used here, and must not reach plugins.
const UNUSED: [&str; 2] = ["LISTEN_FDNAMES", "LISTEN_PIDFDID"];

/// Descriptors that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ActivationError {
    /// Their number is no number, or too large.
    #[error("LISTEN_FDS={0:?} is not a number of descriptors")]
    Count(OsString),
    /// A descriptor is not open.
    #[error("descriptor {0} of LISTEN_FDS: {1}")]
    Descriptor(u32, #[source] io::Error),
    /// A descriptor of the replaced program is not what that program says.
    #[error("sockets of the previous program: {0}")]
    Handover(#[source] io::Error),
    /// A descriptor is a datagram socket, a TCP socket, a FIFO.
    #[error("descriptor {0} of LISTEN_FDS is not a listening unix stream socket with a path")]
    Kind(u32),
}

/// Takes the passed descriptors, and removes the variables from the environment. The first thing
/// that the process does: it must not have another thread or a descriptor of its own yet.
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
    let ours = pid.is_some_and(|pid| pid == *std::process::id().to_string());
    let mut sockets = Vec::new();
    if let Some(count) = count.filter(|_| ours) {
        let number = count.to_str().and_then(|c| c.parse::<u32>().ok());
        let number = number.filter(|n| *n <= MAX_DESCRIPTORS);
        let number = number.ok_or(ActivationError::Count(count))?;
        for fd in FIRST..FIRST + number {
            sockets.push(listener(fd)?);
        }
    }
    Ok(Activation { sockets, notify: notify.map(Notify), ..Activation::default() })
}

fn listener(fd: u32) -> Result<PassedSocket, ActivationError> {
    // systemd does not set close-on-exec, and plugins must not inherit the socket.
    let socket = sys::take_descriptor(fd).map_err(|e| ActivationError::Descriptor(fd, e))?;
    let fits = sockopt::socket_domain(&socket).is_ok_and(|d| d == AddressFamily::UNIX)
        && sockopt::socket_type(&socket).is_ok_and(|t| t == SocketType::STREAM)
        && sockopt::socket_acceptconn(&socket).is_ok_and(|listens| listens);
    let listener = UnixListener::from(socket);
    let path = listener.local_addr().ok().and_then(|a| a.as_pathname().map(PathBuf::from));
    match path {
        Some(path) if fits => Ok(PassedSocket { path, listener, created: None }),
        _ => Err(ActivationError::Kind(fd)),
    }
}
