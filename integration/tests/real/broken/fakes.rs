//! Listeners on the control socket that stand in for `nrid` and reply to no request.

use rustix::{
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
    },
    process::{Gid, Uid},
};
use std::{
    fs,
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// A listener on the control socket. Dropping this value closes and removes the socket.
pub(super) struct Fake {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Descriptors that stay open as long as this value lives.
    _fds: Vec<OwnedFd>,
}

/// How the listener treats connections.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Keeps connections open and never replies.
    Silent,
    /// Closes connections at once.
    Closes,
}

/// An arbitrary user id that no process of a test machine has.
const OTHER_USER: u32 = 47_114;

impl Fake {
    /// Listens and accepts every connection.
    pub(super) fn accepting(path: &Path, manner: Manner) -> Self {
        let listener: UnixListener = listening_socket(path, 64, None).into();
        listener.set_nonblocking(true).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let should_stop = stop.clone();
        let thread = thread::spawn(move || {
            let mut kept = Vec::new();
            while !should_stop.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) if manner == Manner::Silent => kept.push(stream),
                    Ok(_) => {}
                    Err(_) => thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        Self { path: path.to_owned(), stop, thread: Some(thread), _fds: Vec::new() }
    }

    /// Listens, accepts no connection, and fills its own backlog, so that clients cannot connect.
    pub(super) fn full(path: &Path) -> Self {
        let mut fds = vec![listening_socket(path, 0, None)];
        let address = SocketAddrUnix::new(path).unwrap();
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let client = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
            if connect(&client, &address).is_err() {
                break;
            }
            fds.push(client);
        }
        Self { path: path.to_owned(), stop: Arc::default(), thread: None, _fds: fds }
    }

    /// Listens as another user, to whom the wrapper must send no request.
    pub(super) fn of_another_user(path: &Path) -> Self {
        let fds = vec![listening_socket(path, 64, Some(OTHER_USER))];
        Self { path: path.to_owned(), stop: Arc::default(), thread: None, _fds: fds }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns a listening socket. Peers see the credentials of the thread that called `listen`, so a
/// thread with another user id calls it.
fn listening_socket(path: &Path, backlog: i32, uid: Option<u32>) -> OwnedFd {
    let _ = fs::remove_file(path);
    let path = path.to_owned();
    let open_socket = move || {
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .unwrap();
        bind(&fd, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        if let Some(uid) = uid {
            rustix::thread::set_thread_gid(Gid::from_raw(uid)).unwrap();
            rustix::thread::set_thread_uid(Uid::from_raw(uid)).unwrap();
        }
        listen(&fd, backlog).unwrap();
        fd
    };
    thread::spawn(open_socket).join().unwrap()
}
