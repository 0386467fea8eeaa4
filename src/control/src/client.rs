//! The client's end of a connection.

use crate::{FrameError, Reply, Request, Versioned, frame};
use rustix::{net::sockopt::socket_peercred, process::geteuid};
use std::{
    io,
    os::{fd::BorrowedFd, unix::net::UnixStream},
    path::Path,
    time::Duration,
};

/// A connection to `nrid`.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
}

/// How often a client that meets an `nrid` of another protocol, which is about to be replaced, connects again.
const ATTEMPTS: u32 = 200;
/// And how long it waits before: whoever is replaced may still accept connections for a moment.
const PAUSE: Duration = Duration::from_millis(50);

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error("cannot connect to nrid: {0}")]
    Connect(#[source] std::io::Error),
    /// The connection failed.
    #[error("connection to nrid: {0}")]
    Frame(#[from] FrameError),
    /// Another release.
    #[error("nrid is of version {0}, which speaks another protocol: run 'nrictl restart'")]
    OtherVersion(String),
}

impl Client {
    /// Connects to a control socket.
    ///
    /// # Errors
    /// Nobody listens there, or somebody else than root or the user that we run as. The answers decide what is run with our rights, and a
    /// user's socket may be in `/tmp`, where anybody could have made it.
    pub fn connect(socket: &Path) -> Result<Self, ClientError> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", socket.display()));
        let connect = || {
            let stream = UnixStream::connect(socket)?;
            let uid = socket_peercred(&stream)?.uid;
            is_ours(uid.as_raw(), geteuid().as_raw())?;
            Ok(Self { stream })
        };
        connect().map_err(|e| ClientError::Connect(named(e)))
    }

    /// Limits the time that each answer may take; none waits for as long as the connection lasts.
    ///
    /// # Errors
    /// The socket refuses it.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> Result<(), ClientError> {
        self.stream.set_read_timeout(timeout).map_err(|e| FrameError::from(e).into())
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// The connection fails, or `nrid` is of another version.
    pub fn call(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> Result<Reply, ClientError> {
        match self.call_once(request, fds)? {
            Reply::OtherVersion { version, .. } => Err(ClientError::OtherVersion(version)),
            other => Ok(other),
        }
    }

    /// As [`Client::call`], for the first request of a connection. An `nrid` of another protocol that says that it is being replaced by the installed
    /// program has done nothing: the new one is asked, over a new connection.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn first_call(&mut self, request: &Request, fds: &[BorrowedFd<'_>]) -> Result<Reply, ClientError> {
        let mut left = ATTEMPTS;
        loop {
            match self.call_once(request, fds)? {
                Reply::OtherVersion { restarting: true, .. } if left > 0 => {}
                Reply::OtherVersion { version, .. } => return Err(ClientError::OtherVersion(version)),
                other => return Ok(other),
            }
            left -= 1;
            std::thread::sleep(PAUSE);
            self.connect_again()?;
        }
    }

    /// Another connection to the same socket, with the same limit.
    ///
    /// # Errors
    /// Nobody listens there any more.
    pub fn connect_again(&mut self) -> Result<(), ClientError> {
        let address = self.stream.peer_addr().map_err(FrameError::from)?;
        let path = address.as_pathname().map(Path::to_owned).unwrap_or_default();
        let timeout = self.stream.read_timeout().map_err(FrameError::from)?;
        *self = Self::connect(&path)?;
        self.set_timeout(timeout)
    }

    fn call_once(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> Result<Reply, ClientError> {
        let message = Versioned::ours(request);
        frame::send(&self.stream, &serde_json::to_vec(&message).map_err(FrameError::from)?, fds)?;
        let (payload, _) = frame::receive(&self.stream)?;
        let reply: Versioned<Reply> = serde_json::from_slice(&payload).map_err(FrameError::from)?;
        Ok(reply.message)
    }

    /// Waits until the other end closes the connection; false if the time limit passed before.
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

/// Whether who listens may tell us what to do.
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
    fn only_root_and_ourselves_are_believed() {
        assert!(is_ours(0, 1000).is_ok() && is_ours(1000, 1000).is_ok() && is_ours(0, 0).is_ok());
        for (uid, me) in [(1000, 0), (65534, 1000)] {
            let refused = is_ours(uid, me).unwrap_err();
            // Not an absence: nothing is started in its place.
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
            assert!(refused.to_string().contains(&format!("user {uid} listens there")), "{refused}");
        }
    }

    #[test]
    fn a_stranger_who_listens_is_not_asked() {
        if !geteuid().is_root() {
            println!("skipped: only root can be another user");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let path = dir.path().join("s");
        let listen = || {
            // The user of this thread only.
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
    fn a_socket_of_our_own_is_connected_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let _listener = UnixListener::bind(&path).unwrap();
        assert!(Client::connect(&path).is_ok());
    }
}
