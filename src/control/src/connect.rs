//! Connects to a socket, such as the control socket, within a time limit, if its listener can be
//! trusted.

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nri_locate::Owners;
use rustix::{
    io::{Errno, retry_on_intr},
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
        sockopt::{Timeout, set_socket_timeout},
    },
};
use std::{io, os::unix::net::UnixStream, path::Path, time::Duration};

/// Connects within a time limit, which applies to each write as well.
///
/// # Errors
/// No process listens, or no connection was accepted in time.
pub fn connect_to(socket: &Path, limit: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(socket)?;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The send timeout limits `connect`, too.
    set_socket_timeout(&fd, Timeout::Send, Some(limit))?;
    match retry_on_intr(|| connect(&fd, &address)) {
        Err(Errno::AGAIN) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no connection was accepted within {limit:?}"),
        )),
        connected => Ok(connected.map(|()| fd.into())?),
    }
}

/// Checks the user of the listening process: its replies may decide what this process executes. The
/// socket of a user may be in `/tmp`, where any user could create it.
///
/// # Errors
/// It is neither root nor `own_uid`.
pub fn check_peer_user(stream: &UnixStream, own_uid: u32) -> io::Result<()> {
    check_user(getsockopt(stream, PeerCredentials)?.uid(), own_uid)
}

fn check_user(uid: u32, own_uid: u32) -> io::Result<()> {
    if Owners::root_and(own_uid).contains(uid) {
        return Ok(());
    }
    let why = format!("user {uid} listens there, but only root and user {own_uid} are trusted");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_and_the_own_user_are_trusted() {
        for (uid, own_uid) in [(0, 1000), (1000, 1000), (0, 0)] {
            assert!(check_user(uid, own_uid).is_ok(), "{uid} {own_uid}");
        }
        for (uid, own_uid) in [(1000, 0), (65534, 1000)] {
            let refused = check_user(uid, own_uid).unwrap_err();
            // NotFound or ConnectionRefused would make the caller start another nrid.
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
            assert!(
                refused.to_string().contains(&format!("user {uid} listens there")),
                "{refused}"
            );
        }
    }
}
