//! The client side of a connection to `nrid`.
//!
//! Connecting and sending have a time limit, since `nrid` may hang. A reply may take long because
//! plugins are slow. While the client waits for a reply, it sends [`Request::Ping`] on a second
//! connection: a busy `nrid` replies (a sign of life), an `nrid` that hangs does not.

use crate::{
    connect::{check_peer_user, connect_to},
    exit::exits_within,
    frame::{self, FrameError},
    message::{Reply, Request, Versioned},
};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, geteuid},
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
    /// Longest time without a reply or a sign of life (see the module); `None`: no limit.
    silence: Option<Duration>,
}

/// Time limit of `connect`: if the socket's queue is full, the kernel blocks callers without limit.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for a process to exit after it has closed a connection.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Limit of attempts to reach the next `nrid` while an `nrid` with another protocol version is
/// being replaced: with the pauses, 10 seconds.
const RECONNECTS: u32 = 200;
/// Pause before each attempt, since the previous `nrid` may still accept connections.
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);

/// Reason why a request has no reply.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No process listens on the socket, or the process belongs to an untrusted user.
    #[error("cannot connect to nrid: {0}")]
    Connect(#[source] std::io::Error),
    /// The connection failed.
    #[error("connection to nrid: {0}")]
    Frame(#[from] FrameError),
    /// `nrid` listens, but does not reply.
    #[error("nrid hangs: no sign of life within {limit:?} ({})", socket.display())]
    Hangs {
        /// The control socket.
        socket: PathBuf,
        /// How long the client has waited.
        limit: Duration,
    },
    /// `nrid` is of another release.
    #[error("nrid is of version {0}, which speaks another protocol: run 'nrictl restart'")]
    OtherVersion(String),
}

impl Client {
    /// Connects to a control socket.
    ///
    /// # Errors
    /// No process listens on the socket, or the process belongs to neither root nor the user of
    /// this process. Replies decide what this process executes, and the socket of a user may be in
    /// `/tmp`, where any user could create it.
    pub fn connect(socket: &Path) -> Result<Self, ClientError> {
        Self::connect_within(socket, CONNECT_TIMEOUT)
    }

    fn connect_within(socket: &Path, limit: Duration) -> Result<Self, ClientError> {
        let with_path =
            |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", socket.display()));
        let connect = || {
            let stream = connect_to(socket, limit)?;
            check_peer_user(&stream, geteuid().as_raw())?;
            Ok(Self { stream, silence: None })
        };
        connect().map_err(|e| ClientError::Connect(with_path(e)))
    }

    /// Limits the time of each request and each reply; `None`: no limit.
    ///
    /// # Errors
    /// The socket refuses the timeout.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> Result<(), ClientError> {
        let set = self
            .stream
            .set_read_timeout(timeout)
            .and_then(|()| self.stream.set_write_timeout(timeout));
        set.map_err(|e| FrameError::from(e).into())
    }

    /// Limits the time of each reply to `total`, and the time without a sign of life from `nrid`
    /// to `silence`.
    ///
    /// # Errors
    /// The socket refuses the timeout.
    pub fn set_timeouts(&mut self, total: Duration, silence: Duration) -> Result<(), ClientError> {
        self.silence = Some(silence);
        self.set_timeout(Some(total))?;
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

    /// Sends the first request of a connection, in its encoded form, and waits for the reply. If an
    /// `nrid` with another protocol version replies that the installed program is about to replace
    /// it, that `nrid` has not handled the request. Then the request is sent again to the next
    /// `nrid`, over a new connection.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn first_call(
        &mut self,
        request: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<Reply, ClientError> {
        self.send(request, fds)?;
        let mut attempts_left = RECONNECTS;
        loop {
            match self.reply()? {
                Reply::OtherVersion { restarting: true, .. } if attempts_left > 0 => {}
                Reply::OtherVersion { version, .. } => {
                    return Err(ClientError::OtherVersion(version));
                }
                other => return Ok(other),
            }
            attempts_left -= 1;
            std::thread::sleep(RECONNECT_PAUSE);
            self.connect_again()?;
            self.send(request, fds)?;
        }
    }

    /// Waits for a sign of life. An `nrid` that is older than [`Request::Ping`] closes the
    /// connection, and then gets a request for its status.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn ping(&mut self) -> Result<(), ClientError> {
        match self.call(&Request::Ping, &[]) {
            // An nrid that exits closes the connection, too; then connecting again fails.
            Err(closed @ ClientError::Frame(FrameError::Closed)) => {
                self.connect_again().map_err(|_| closed)?;
                self.call(&Request::Status, &[]).map(drop)
            }
            reply => reply.map(drop),
        }
    }

    /// Waits until the process that created the listening socket exits, since an `nrid` that exits
    /// closes its connections before the socket refuses new ones. The wait is limited to a second,
    /// since the process may be systemd (socket activation), which does not exit.
    pub fn wait_exited(&self) {
        let pid = getsockopt(&self.stream, PeerCredentials)
            .ok()
            .and_then(|peer| Pid::from_raw(peer.pid()));
        if let Some(pid) = pid {
            let _ = exits_within(pid, EXIT_TIMEOUT);
        }
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
            (Some(total), Some(silence)) => self.set_timeouts(total, silence),
            _ => self.set_timeout(timeout),
        }
    }

    fn socket(&self) -> Result<PathBuf, FrameError> {
        let address = self.stream.peer_addr()?;
        Ok(address.as_pathname().map(Path::to_owned).unwrap_or_default())
    }

    fn call_once(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> Result<Reply, ClientError> {
        self.send(&encode(request)?, fds)?;
        self.reply()
    }

    /// Sends a request, for which [`Client::reply`] waits then. An `nrid` that refuses this process
    /// replies and closes the connection without having read anything, maybe before the request is
    /// sent: the reply is there nevertheless.
    fn send(&self, request: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), ClientError> {
        match frame::send(&self.stream, request, fds) {
            Ok(()) | Err(FrameError::Closed) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn reply(&self) -> Result<Reply, ClientError> {
        if let (Some(silence), Some(total)) =
            (self.silence, self.stream.read_timeout().map_err(FrameError::from)?)
        {
            self.wait(total, silence)?;
        }
        let (payload, _) = frame::receive(&self.stream)?;
        let reply: Versioned<Reply> = serde_json::from_slice(&payload).map_err(FrameError::from)?;
        Ok(reply.message)
    }

    /// Waits for the reply. After half of `silence` without a reply, requests a sign of life, which
    /// must arrive within the other half.
    fn wait(&self, total: Duration, silence: Duration) -> Result<(), ClientError> {
        let deadline = Instant::now() + total;
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
                return Err(ClientError::Hangs { socket, limit: silence });
            }
        }
    }

    /// Whether data or the end of the connection arrives within `limit`.
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

    /// Waits until `nrid` closes the connection. Returns false after the time limit.
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

/// Encodes a request.
///
/// # Errors
/// The request cannot be encoded.
pub fn encode(request: &Request) -> Result<Vec<u8>, FrameError> {
    Ok(serde_json::to_vec(&Versioned::ours(request))?)
}

/// Whether the listening process replies on another connection. A process that closes the
/// connection counts as alive: it exits, which closes the first connection, too, or it is older
/// than [`Request::Ping`].
fn is_alive(socket: &Path, limit: Duration) -> bool {
    let reply = Client::connect_within(socket, limit).and_then(|client| {
        client.set_timeout(Some(limit))?;
        client.call(&Request::Ping, &[])
    });
    match reply {
        Ok(_) | Err(ClientError::OtherVersion(_) | ClientError::Frame(FrameError::Closed)) => true,
        Err(ClientError::Connect(e)) => {
            matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
    };
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_socket_of_another_user_is_refused() {
        if !geteuid().is_root() {
            println!("skipped: only root can listen as another user");
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
    fn waiting_for_a_process_that_does_not_exit_times_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let _listener = UnixListener::bind(&path).unwrap();
        let client = Client::connect(&path).unwrap();
        let begin = Instant::now();
        client.wait_exited();
        let took = begin.elapsed();
        // The upper bound leaves time for a busy machine.
        assert!(took >= EXIT_TIMEOUT && took < EXIT_TIMEOUT * 10, "waited {took:?}");
    }

    /// Starts a listener that calls `serve` with the number of each connection. A client sends its
    /// request over connection 0, and a ping over each later one.
    fn listener(path: &Path, serve: impl Fn(usize, UnixStream) + Send + 'static) {
        let listener = UnixListener::bind(path).unwrap();
        std::thread::spawn(move || {
            listener.incoming().enumerate().for_each(|(n, stream)| serve(n, stream.unwrap()));
        });
    }

    /// Receives a request, and replies.
    fn send_reply(stream: &UnixStream, reply: &Reply) -> Request {
        let (payload, _) = frame::receive(stream).unwrap();
        let request: Versioned<Request> = serde_json::from_slice(&payload).unwrap();
        frame::send(stream, &serde_json::to_vec(&Versioned::ours(reply)).unwrap(), &[]).unwrap();
        request.message
    }

    #[test]
    fn a_client_waits_for_a_busy_nrid_but_not_for_one_that_hangs() {
        let dir = tempfile::tempdir().unwrap();
        let silence = Duration::from_millis(200);
        let request = |path: &Path, total| {
            let mut client = Client::connect(path).unwrap();
            client.set_timeouts(total, silence).unwrap();
            client.first_call(&encode(&Request::Stop).unwrap(), &[])
        };
        let hour = Duration::from_secs(3600);
        // This nrid accepts connections and keeps them open, but never replies.
        let kept = std::sync::Mutex::new(Vec::new());
        let hangs = dir.path().join("hangs");
        listener(&hangs, move |_, stream| kept.lock().unwrap().push(stream));
        let e = request(&hangs, hour).unwrap_err();
        let ClientError::Hangs { socket, limit } = &e else { panic!("{e}") };
        assert_eq!((socket, *limit), (&hangs, silence));

        // This nrid replies after its third sign of life, like one that waits for a slow plugin.
        let busy = dir.path().join("busy");
        let pending = std::sync::Mutex::new(None);
        listener(&busy, move |n, stream| match n {
            0 => *pending.lock().unwrap() = Some(stream),
            n => {
                assert_eq!(send_reply(&stream, &Reply::Done), Request::Ping);
                if let Some(first) = pending.lock().unwrap().as_ref().filter(|_| n == 3) {
                    send_reply(first, &Reply::Done);
                }
            }
        });
        assert_eq!(request(&busy, hour).unwrap(), Reply::Done);

        // This nrid replies to pings only. The total time is limited even if every ping succeeds.
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
    fn a_refusal_that_is_sent_before_the_request_is_its_reply() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let client = Client::connect(&path).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let refused = Reply::Refused { message: "no".into() };
        let payload = serde_json::to_vec(&Versioned::ours(&refused)).unwrap();
        frame::send(&stream, &payload, &[]).unwrap();
        drop(stream);
        assert_eq!(client.call(&Request::Ping, &[]).unwrap(), refused);
        // Without a reply, the connection is closed as before.
        let closed = client.call(&Request::Ping, &[]).unwrap_err();
        assert!(matches!(closed, ClientError::Frame(FrameError::Closed)), "{closed}");
    }

    #[test]
    fn a_ping_succeeds_if_nrid_knows_only_the_status_request() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let (sender, requests) = std::sync::mpsc::channel();
        listener(&path, move |n, stream| match n {
            // An older nrid closes the connection after a request that it does not know.
            0 => drop(frame::receive(&stream).unwrap()),
            _ => {
                let status = Reply::Status(Box::default());
                sender.send(send_reply(&stream, &status)).unwrap();
            }
        });
        let mut client = Client::connect(&path).unwrap();
        client.set_timeout(Some(Duration::from_secs(60))).unwrap();
        client.ping().unwrap();
        assert_eq!(requests.recv().unwrap(), Request::Status);
    }

    #[test]
    fn connecting_to_a_socket_with_a_full_queue_times_out() {
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
    fn connecting_to_a_socket_of_the_own_user_succeeds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let _listener = UnixListener::bind(&path).unwrap();
        assert!(Client::connect(&path).is_ok());
    }
}
