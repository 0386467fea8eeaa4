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

/// Returns the paths of the unix sockets on which a process listens.
///
/// # Errors
/// The process has exited, or may not be examined.
pub fn listening(pid: i32) -> procfs::ProcResult<HashSet<PathBuf>> {
    let process = Process::new(pid)?;
    let inode = |fd: procfs::process::FDInfo| match fd.target {
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
        assert!(listening(own).unwrap().contains(&path));
        drop(bound);
        // Child processes of other tests inherit the socket and close it at their exec.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while listener(&path).is_some() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(listener(&path), None);
        assert!(!listening(own).unwrap().contains(&path));
    }
}
