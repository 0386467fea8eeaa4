//! Unix sockets and the processes that listen on them.

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use procfs::{
    net::UnixState,
    process::{FDTarget, Process},
};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

/// Whose process listens on a unix socket, if any does that can still be reached.
///
/// Without waiting: a process that is stopped may have so many callers waiting that a connection
/// would hang.
pub fn listener(socket: &Path) -> Option<i32> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    connect(&stream, &SocketAddrUnix::new(socket).ok()?).ok()?;
    // In another PID namespace it has no number that we could use.
    getsockopt(&stream, PeerCredentials).ok().map(|peer| peer.pid())
}

/// Paths of the unix sockets on which a process listens.
///
/// # Errors
/// The process is gone, or may not be looked at.
pub fn listening(pid: i32) -> procfs::ProcResult<HashSet<PathBuf>> {
    let process = Process::new(pid)?;
    let inode = |fd: procfs::process::FDInfo| match fd.target {
        FDTarget::Socket(inode) => Some(inode),
        _ => None,
    };
    let inodes: HashSet<u64> = process.fd()?.flatten().filter_map(inode).collect();
    let own = process.unix()?.into_iter().filter(|s| inodes.contains(&s.inode));
    // The accepted ones have the path, too.
    Ok(own.filter(|s| s.state == UnixState::UNCONNECTED).filter_map(|s| s.path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_live_socket_has_an_owner_and_a_dead_one_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let own = std::process::id() as i32;
        assert_eq!(listener(&path), None);
        assert!(!listening(own).unwrap().contains(&path));
        let bound = UnixListener::bind(&path).unwrap();
        assert_eq!(listener(&path), Some(own));
        assert!(listening(own).unwrap().contains(&path));
        drop(bound);
        // A child that another test makes holds it too until it has become its own program.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while listener(&path).is_some() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(listener(&path), None);
        assert!(!listening(own).unwrap().contains(&path));
    }
}
