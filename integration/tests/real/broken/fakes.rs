//! Processes that listen on the control socket instead of an `nrid`, and do not do its work.

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

/// A listener with what it does to those who come. It ends, with its socket, when it is dropped.
pub(super) struct Fake {
    path: PathBuf,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Kept open.
    _fds: Vec<OwnedFd>,
}

/// What becomes of connections.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    Silent,
    HangsUp,
}

/// A user id without processes.
const STRANGER: u32 = 47_114;

impl Fake {
    /// Takes every connection.
    pub(super) fn accepting(path: &Path, manner: Manner) -> Self {
        let listener: UnixListener = listening(path, 64, None).into();
        listener.set_nonblocking(true).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let done = over.clone();
        let thread = thread::spawn(move || {
            let mut kept = Vec::new();
            while !done.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) if manner == Manner::Silent => kept.push(stream),
                    Ok(_) => {}
                    Err(_) => thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        Self { path: path.to_owned(), over, thread: Some(thread), _fds: Vec::new() }
    }

    /// Takes none, and has no place for more to wait.
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
        Self { path: path.to_owned(), over: Arc::default(), thread: None, _fds: fds }
    }

    /// Belongs to another user, who would receive all requests.
    pub(super) fn of_a_stranger(path: &Path) -> Self {
        let fds = vec![listening(path, 64, Some(STRANGER))];
        Self { path: path.to_owned(), over: Arc::default(), thread: None, _fds: fds }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// Who listens is who called `listen`: a thread can be another user than its process.
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
