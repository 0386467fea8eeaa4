//! Sockets and lock that were passed to the process, by systemd ([`systemd`]) or by the program
//! that the current one replaced ([`handover`]).
//!
//! [`systemd`]: crate::daemon::systemd
//! [`handover`]: crate::daemon::handover

use crate::process::program::RestartError;
use nri_control::Inherited;
use std::{
    ffi::OsString,
    io,
    os::{
        fd::OwnedFd,
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram, UnixListener},
        },
    },
    path::{Path, PathBuf},
};

/// Descriptors and messages that were passed to the process at its start.
#[derive(Debug, Default)]
pub struct Activation {
    /// Listening sockets.
    pub sockets: Vec<PassedSocket>,
    /// Lock of the state directory, passed by the program that this program has replaced.
    pub lock: Option<OwnedFd>,
    /// Error of a restart that failed, after which this program continues.
    pub restart_error: Option<RestartError>,
    /// Socket on which systemd expects the report of the start.
    pub notify: Option<Notify>,
    /// Attributes that the process has inherited from its parent and cannot reset.
    pub inherited: Vec<Inherited>,
}

/// A listening socket.
#[derive(Debug)]
pub struct PassedSocket {
    /// Path of the socket.
    pub path: PathBuf,
    /// The socket.
    pub listener: UnixListener,
    /// The socket's file, if the replaced program created it. `nrid` removes such a file at its
    /// end.
    pub created: Option<FileId>,
}

/// Device and inode of a file.
pub type FileId = (u64, u64);

impl Activation {
    /// Whether a socket with this path was passed.
    pub fn has(&self, path: &Path) -> bool {
        self.sockets.iter().any(|passed| is_same_file(&passed.path, path))
    }
}

/// Returns device and inode of a file, without following links; `None` if it does not exist.
pub fn file_id(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    std::fs::symlink_metadata(path).ok().map(|m| (m.dev(), m.ino()))
}

/// Whether two paths name one file, such as `/run/x` and `/var/run/x`.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    a == b || file_id(a).is_some_and(|a| Some(a) == file_id(b))
}

/// Address of the socket on which systemd expects the state of a service (sd_notify(3)).
#[derive(Debug)]
pub struct Notify(pub OsString);

impl Notify {
    /// Reports that the service has started.
    ///
    /// # Errors
    /// The message cannot be sent.
    pub fn ready(&self) -> io::Result<()> {
        let address = match self.0.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(&self.0)?,
        };
        UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address).map(drop)
    }
}
