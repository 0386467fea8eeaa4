//! Listeners on the control socket that stand in for an `nrid` and serve no request.

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

/// A listener on the control socket. Dropping it closes and removes the socket.
pub(super) struct Fake {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Descriptors that stay open as long as the listener.
    _fds: Vec<OwnedFd>,
}

/// How the listener treats connections.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Keeps them open and never replies.
    Silent,
    /// Closes them at once.
    Closes,
}

/// A user id without processes.
const OTHER_USER: u32 = 47_114;

impl Fake {
    /// Listens and accepts every connection.
    pub(super) fn accepting(path: &Path, manner: Manner) -> Self {
        let listener: UnixListener = listening(path, 64, None).into();
        listener.set_nonblocking(true).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let mut kept = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) if manner == Manner::Silent => kept.push(stream),
                    Ok(_) => {}
                    Err(_) => thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        Self { path: path.to_owned(), stop, thread: Some(thread), _fds: Vec::new() }
    }

    /// Listens, accepts no connection, and has filled the backlog.
    pub(super) fn full(path: &Path) -> Self {
        let mut fds = vec![listening(path, 0, None)];
        let address = SocketAddrUnix::new(path).unwrap();
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let waiting =
                socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
            if connect(&waiting, &address).is_err() {
                break;
            }
            fds.push(waiting);
        }
        Self { path: path.to_owned(), stop: Arc::default(), thread: None, _fds: fds }
    }

    /// Listens as another user, who would receive all requests.
    pub(super) fn of_another_user(path: &Path) -> Self {
        let fds = vec![listening(path, 64, Some(OTHER_USER))];
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
fn listening(path: &Path, backlog: i32, uid: Option<u32>) -> OwnedFd {
    let _ = fs::remove_file(path);
    let path = path.to_owned();
    let make = move || {
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
    thread::spawn(make).join().unwrap()
}
