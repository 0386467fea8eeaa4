//! The client side of a connection to `nrid`.
//!
//! No call waits without limit for an `nrid` that hangs, neither to connect nor to send. A reply
//! may take long because plugins are slow. Meanwhile a status request on a second connection
//! distinguishes an `nrid` that is busy, which replies to it, from one that hangs.

use crate::{
    frame::{self, FrameError},
    message::{Reply, Request, Versioned},
};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, retry_on_intr},
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
        sockopt::{Timeout, set_socket_timeout},
    },
    process::{Pid, PidfdFlags, geteuid, pidfd_open},
};
use std::{
    io,
    os::{fd::BorrowedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// A connection to `nrid`.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    /// Longest time without a sign of life; `None`: no limit.
    silence: Option<Duration>,
}

/// Time limit of `connect`: if the socket's queue is full, the kernel blocks callers without limit.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for a process to exit after it has closed a connection.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Limit of connections to an `nrid` of another protocol that is being replaced: with the pause,
/// 10 seconds.
const RECONNECTS: u32 = 200;
/// Pause before each of these connections: the previous `nrid` may still accept some.
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);

/// Reason why a request has no reply.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No process listens, or a process of another user.
    #[error("cannot connect to nrid: {0}")]
    Connect(#[source] std::io::Error),
    /// The connection failed.
    #[error("connection to nrid: {0}")]
    Frame(#[from] FrameError),
    /// `nrid` listens, but does not reply.
    #[error("nrid hangs: no sign of life within {1:?} ({socket})", socket = .0.display())]
    Hangs(PathBuf, Duration),
    /// `nrid` is of another release.
    #[error("nrid is of version {0}, which speaks another protocol: run 'nrictl restart'")]
    OtherVersion(String),
}

impl Client {
    /// Connects to a control socket.
    ///
    /// # Errors
    /// No process listens there, or one of a user other than root and the user of this process.
    /// Replies decide what is run with our privileges, and the socket of a user may be in `/tmp`,
    /// where any user could create it.
    pub fn connect(socket: &Path) -> Result<Self, ClientError> {
        Self::connect_within(socket, CONNECT_TIMEOUT)
    }

    fn connect_within(socket: &Path, limit: Duration) -> Result<Self, ClientError> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", socket.display()));
        let connect = || {
            let stream = connect_to(socket, limit)?;
            let uid = getsockopt(&stream, PeerCredentials)?.uid();
            is_ours(uid, geteuid().as_raw())?;
            Ok(Self { stream, silence: None })
        };
        connect().map_err(|e| ClientError::Connect(named(e)))
    }

    /// Limits the time of each request and each reply; `None`: no limit.
    ///
    /// # Errors
    /// The socket refuses it.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> Result<(), ClientError> {
        let set = self
            .stream
            .set_read_timeout(timeout)
            .and_then(|()| self.stream.set_write_timeout(timeout));
        set.map_err(|e| FrameError::from(e).into())
    }

    /// Limits the time of each reply, and the time without a sign of life from `nrid` meanwhile.
    ///
    /// # Errors
    /// The socket refuses it.
    pub fn set_timeouts(&mut self, whole: Duration, silence: Duration) -> Result<(), ClientError> {
        self.silence = Some(silence);
        self.set_timeout(Some(whole))?;
        self.stream.set_write_timeout(Some(silence)).map_err(|e| FrameError::from(e).into())
    }

    /// Sends a request and waits for the reply.
    ///
    /// # Errors
    /// The connection fails, or `nrid` is of another version.
    pub fn call(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> Result<Reply, ClientError> {
        match self.call_once(request, fds)? {
            Reply::OtherVersion { version, .. } => Err(ClientError::OtherVersion(version)),
            other => Ok(other),
        }
    }

    /// Sends the first request of a connection and waits for the reply. If an `nrid` of another
    /// protocol replies that the installed program is replacing it, it has not handled the request:
    /// the request is sent again to the next `nrid`, over a new connection.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn first_call(
        &mut self,
        request: &Request,
        fds: &[BorrowedFd<'_>],
    ) -> Result<Reply, ClientError> {
        let mut left = RECONNECTS;
        loop {
            match self.call_once(request, fds)? {
                Reply::OtherVersion { restarting: true, .. } if left > 0 => {}
                Reply::OtherVersion { version, .. } => {
                    return Err(ClientError::OtherVersion(version));
                }
                other => return Ok(other),
            }
            left -= 1;
            std::thread::sleep(RECONNECT_PAUSE);
            self.connect_again()?;
        }
    }

    /// Waits until the process that listened when the connection was made has exited: an `nrid`
    /// that exits closes connections before its socket refuses new ones. The wait is short, since
    /// the process may be systemd, which does not exit.
    pub fn wait_ended(&self) {
        let pid = getsockopt(&self.stream, PeerCredentials)
            .ok()
            .and_then(|peer| Pid::from_raw(peer.pid()));
        let Some(process) = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
            return;
        };
        let limit = Timespec { tv_sec: EXIT_TIMEOUT.as_secs().cast_signed(), tv_nsec: 0 };
        let _ = retry_on_intr(|| poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit)));
    }

    /// Replaces the connection by a new one to the same socket, with the same limits.
    ///
    /// # Errors
    /// No process listens on the socket any more.
    pub fn connect_again(&mut self) -> Result<(), ClientError> {
        let timeout = self.stream.read_timeout().map_err(FrameError::from)?;
        let next = Self::connect(&self.socket()?)?;
        *self = Self { silence: self.silence, ..next };
        match (timeout, self.silence) {
            (Some(whole), Some(silence)) => self.set_timeouts(whole, silence),
            _ => self.set_timeout(timeout),
        }
    }

    fn socket(&self) -> Result<PathBuf, FrameError> {
        let address = self.stream.peer_addr()?;
        Ok(address.as_pathname().map(Path::to_owned).unwrap_or_default())
    }

    fn call_once(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> Result<Reply, ClientError> {
        let message = Versioned::ours(request);
        frame::send(&self.stream, &serde_json::to_vec(&message).map_err(FrameError::from)?, fds)?;
        if let (Some(silence), Some(whole)) =
            (self.silence, self.stream.read_timeout().map_err(FrameError::from)?)
        {
            self.wait(whole, silence)?;
        }
        let (payload, _) = frame::receive(&self.stream)?;
        let reply: Versioned<Reply> = serde_json::from_slice(&payload).map_err(FrameError::from)?;
        Ok(reply.message)
    }

    /// Waits for data. Half of `silence` is the time for the reply, half for the sign of life.
    fn wait(&self, whole: Duration, silence: Duration) -> Result<(), ClientError> {
        let deadline = Instant::now() + whole;
        let half = silence / 2;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.is_readable_within(half.min(left)).map_err(FrameError::from)? {
                return Ok(());
            }
            if left <= half {
                return Err(FrameError::Timeout.into());
            }
            let socket = self.socket()?;
            if !is_alive(&socket, half)
                && !self.is_readable_within(Duration::ZERO).map_err(FrameError::from)?
            {
                return Err(ClientError::Hangs(socket, silence));
            }
        }
    }

    /// Whether data or the end of the connection arrives in time.
    fn is_readable_within(&self, limit: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], Some(&left)) {
                Err(Errno::INTR) => {}
                ready => return Ok(ready? > 0),
            }
        }
    }

    /// Waits until the other end closes the connection. Returns false after the time limit.
    pub fn wait_closed(&self) -> bool {
        loop {
            match frame::receive(&self.stream) {
                Ok(_) => {}
                Err(FrameError::Timeout) => return false,
                Err(_) => return true,
            }
        }
    }
}

/// Connects within a time limit.
fn connect_to(socket: &Path, limit: Duration) -> io::Result<UnixStream> {
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

/// Whether the listener replies on another connection. A listener that has exited counts as alive:
/// its exit closes the first connection, which the caller detects.
fn is_alive(socket: &Path, limit: Duration) -> bool {
    let reply = Client::connect_within(socket, limit).and_then(|client| {
        client.set_timeout(Some(limit))?;
        client.call(&Request::Status, &[])
    });
    match reply {
        Ok(_) | Err(ClientError::OtherVersion(_) | ClientError::Frame(FrameError::Closed)) => true,
        Err(ClientError::Connect(e)) => {
            matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
        }
        Err(_) => false,
    }
}

/// Fails if the listener's user is neither root nor the user of this process.
fn is_ours(uid: u32, me: u32) -> io::Result<()> {
    if uid == 0 || uid == me {
        return Ok(());
    }
    let why = format!("user {uid} listens there, who is neither root nor user {me}");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_root_and_the_own_user_are_trusted() {
        assert!(is_ours(0, 1000).is_ok() && is_ours(1000, 1000).is_ok() && is_ours(0, 0).is_ok());
        for (uid, me) in [(1000, 0), (65534, 1000)] {
            let refused = is_ours(uid, me).unwrap_err();
            // Not an error that means a missing nrid, in which case another one would be started.
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
            assert!(
                refused.to_string().contains(&format!("user {uid} listens there")),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_socket_of_another_user_is_refused() {
        if !geteuid().is_root() {
            println!("skipped: only root can be another user");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .unwrap();
        let path = dir.path().join("s");
        let listen = || {
            // Change the user of this thread only.
            let nobody = rustix::fs::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            UnixListener::bind(&path).unwrap()
        };
        let _listener = std::thread::scope(|s| s.spawn(listen).join().unwrap());
        let ClientError::Connect(refused) = Client::connect(&path).unwrap_err() else { panic!() };
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(refused.to_string().contains("user 65534 listens there"), "{refused}");
    }

    #[test]
    fn waiting_for_a_process_that_does_not_end_is_limited() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let _listener = UnixListener::bind(&path).unwrap();
        let client = Client::connect(&path).unwrap();
        let begin = Instant::now();
        client.wait_ended();
        assert!(begin.elapsed() >= EXIT_TIMEOUT && begin.elapsed() < EXIT_TIMEOUT * 10);
    }

    /// Starts a listener that serves each connection; those after the first request a sign of life.
    fn listener(path: &Path, serve: impl Fn(usize, UnixStream) + Send + 'static) {
        let listener = UnixListener::bind(path).unwrap();
        std::thread::spawn(move || {
            listener.incoming().enumerate().for_each(|(n, stream)| serve(n, stream.unwrap()));
        });
    }

    fn send_reply(stream: &UnixStream, reply: &Reply) {
        frame::receive(stream).unwrap();
        frame::send(stream, &serde_json::to_vec(&Versioned::ours(reply)).unwrap(), &[]).unwrap();
    }

    #[test]
    fn a_client_waits_for_a_busy_nrid_but_not_for_one_that_hangs() {
        let dir = tempfile::tempdir().unwrap();
        let silence = Duration::from_millis(200);
        let request = |path: &Path, whole| {
            let mut client = Client::connect(path).unwrap();
            client.set_timeouts(whole, silence).unwrap();
            client.first_call(&Request::Stop, &[])
        };
        let hour = Duration::from_secs(3600);
        let kept = std::sync::Mutex::new(Vec::new());
        let hangs = dir.path().join("hangs");
        listener(&hangs, move |_, stream| kept.lock().unwrap().push(stream));
        let e = request(&hangs, hour).unwrap_err();
        assert!(
            matches!(&e, ClientError::Hangs(path, limit) if *path == hangs && *limit == silence),
            "{e}"
        );

        // A busy nrid replies after the third sign of life, as with a slow plugin.
        let busy = dir.path().join("busy");
        let pending = std::sync::Mutex::new(None);
        listener(&busy, move |n, stream| match n {
            0 => *pending.lock().unwrap() = Some(stream),
            n => {
                send_reply(&stream, &Reply::Done);
                let pending = pending.lock().unwrap();
                pending.iter().filter(|_| n == 3).for_each(|first| send_reply(first, &Reply::Done));
            }
        });
        assert_eq!(request(&busy, hour).unwrap(), Reply::Done);

        // The total time is limited even if every sign of life arrives.
        let never = dir.path().join("never");
        let kept = std::sync::Mutex::new(Vec::new());
        listener(&never, move |n, stream| {
            (n > 0).then(|| send_reply(&stream, &Reply::Done));
            kept.lock().unwrap().push(stream);
        });
        let e = request(&never, silence * 3).unwrap_err();
        assert!(matches!(e, ClientError::Frame(FrameError::Timeout)), "{e}");
    }

    #[test]
    fn connecting_to_a_full_queue_is_limited() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let address = SocketAddrUnix::new(&path).unwrap();
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = || socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let full = socket();
        rustix::net::bind(&full, &address).unwrap();
        rustix::net::listen(&full, 0).unwrap();
        let mut waiting = vec![socket()];
        while connect(waiting.last().unwrap(), &address).is_ok() {
            waiting.push(socket());
        }
        let e = Client::connect_within(&path, Duration::from_millis(50)).unwrap_err();
        let ClientError::Connect(e) = e else { panic!("{e}") };
        assert_eq!(e.kind(), io::ErrorKind::TimedOut);
        assert!(e.to_string().ends_with("s: no connection was accepted within 50ms"), "{e}");
    }

    #[test]
    fn a_socket_of_the_own_user_is_connected_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let _listener = UnixListener::bind(&path).unwrap();
        assert!(Client::connect(&path).is_ok());
    }
}
