//! Unix sockets and the processes that listen on them.

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use procfs::{
    net::UnixState,
    process::{FDInfo, FDTarget, Process, all_processes},
};
use rustix::{
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with},
};
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

/// Returns the id of the process that listens on a unix socket, by connecting to the socket.
///
/// Does not block, even if the process is stopped and its queue of connections is full.
pub fn listener(socket: &Path) -> Option<i32> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    connect(&stream, &SocketAddrUnix::new(socket).ok()?).ok()?;
    // The kernel reports the pid 0 for a process outside of this PID namespace.
    getsockopt(&stream, PeerCredentials).ok().map(|peer| peer.pid())
}

/// Returns the id of the process that listens on a unix socket, as [`listener`] does, but without
/// a trace in that process: most servers log a connection that says nothing. `likely` are processes
/// that are examined before all others.
///
/// The process is looked up in `/proc`. Only where `/proc` does not tell, a connection is made: the
/// process is of another user or network namespace, or the socket has replaced another one at this
/// path, whose process still has it.
pub fn listener_unnoticed(socket: &Path, likely: &[i32]) -> Option<i32> {
    if !is_bound(socket) {
        return None;
    }
    holder(socket, likely).or_else(|| listener(socket))
}

/// Whether a stream socket is bound to the path: the kernel refuses to connect a datagram socket to
/// it because of its type, before the other side could notice.
fn is_bound(socket: &Path) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let datagram = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None);
    let address = SocketAddrUnix::new(socket);
    let refused = datagram.and_then(|datagram| connect(&datagram, &address?));
    refused == Err(Errno::PROTOTYPE)
}

/// Returns the process that has the only listening socket with this path.
fn holder(socket: &Path, likely: &[i32]) -> Option<i32> {
    let real = socket.canonicalize().ok()?;
    let is_named = |path: &Path| {
        path.file_name() == socket.file_name() && path.canonicalize().is_ok_and(|p| p == real)
    };
    let sockets = procfs::net::unix().ok()?;
    let mut found = sockets
        .into_iter()
        .filter(|s| s.state == UnixState::UNCONNECTED && s.path.as_deref().is_some_and(is_named));
    let inode = found.next()?.inode;
    if found.next().is_some() {
        return None;
    }
    let has_it = |process: &Process| {
        let is_it = |fd: FDInfo| matches!(fd.target, FDTarget::Socket(i) if i == inode);
        process.fd().is_ok_and(|mut fds| fds.any(|fd| fd.is_ok_and(is_it)))
    };
    let mut likely = likely.iter().filter_map(|pid| Process::new(*pid).ok());
    let found = likely.find(has_it).or_else(|| all_processes().ok()?.flatten().find(has_it));
    found.map(|process| process.pid())
}

/// Returns the paths of the unix sockets on which a process listens.
///
/// # Errors
/// The process has exited, or may not be examined.
pub fn listening(pid: i32) -> procfs::ProcResult<HashSet<PathBuf>> {
    let process = Process::new(pid)?;
    let inode = |fd: FDInfo| match fd.target {
        FDTarget::Socket(inode) => Some(inode),
        _ => None,
    };
    let inodes: HashSet<u64> = process.fd()?.flatten().filter_map(inode).collect();
    let own = process.unix()?.into_iter().filter(|s| inodes.contains(&s.inode));
    // Accepted connections have the path of the socket, too, but another state.
    Ok(own.filter(|s| s.state == UnixState::UNCONNECTED).filter_map(|s| s.path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_socket_has_a_listener_until_it_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let own = std::process::id() as i32;
        assert_eq!(listener(&path), None);
        assert!(!listening(own).unwrap().contains(&path));
        let bound = UnixListener::bind(&path).unwrap();
        assert_eq!(listener(&path), Some(own));
        assert_eq!(listener_unnoticed(&path, &[1, own]), Some(own));
        assert!(listening(own).unwrap().contains(&path));
        drop(bound);
        // Child processes of other tests inherit the socket and close it at their exec.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while listener(&path).is_some() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(listener(&path), None);
        assert_eq!(listener_unnoticed(&path, &[]), None);
        assert!(!listening(own).unwrap().contains(&path));
    }

    #[test]
    fn the_listener_does_not_notice_that_it_was_looked_up() {
        let dir = tempfile::tempdir().unwrap();
        let (path, own) = (dir.path().join("s"), std::process::id() as i32);
        let bound = UnixListener::bind(&path).unwrap();
        bound.set_nonblocking(true).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        for path in [&path, &link.join("s")] {
            assert_eq!(listener_unnoticed(path, &[]), Some(own));
        }
        let unnoticed = bound.accept().unwrap_err();
        assert_eq!(unnoticed.kind(), std::io::ErrorKind::WouldBlock);
        // Of two sockets that were bound to one path, a connection finds the one that is there.
        std::fs::remove_file(&path).unwrap();
        let replacement = UnixListener::bind(&path).unwrap();
        assert_eq!(listener_unnoticed(&path, &[]), Some(own));
        assert!(replacement.accept().is_ok() && bound.accept().is_err());
    }
}
