//! Launched by a runtime: its environment says who we are and which inherited descriptor is the
//! socket.

use crate::StubError;
use rustix::process::{ForeignRawFd, PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::{
    env,
    os::{fd::RawFd, unix::net::UnixStream},
    sync::atomic::{AtomicBool, Ordering},
};

/// What a runtime told a plugin that it launched.
pub(crate) struct Launched {
    pub(crate) name: Option<String>,
    pub(crate) index: Option<String>,
    fd: RawFd,
}

impl Launched {
    /// What the environment says, if it says anything.
    pub(crate) fn from_env() -> Result<Option<Self>, StubError> {
        let Ok(fd) = env::var("NRI_PLUGIN_SOCKET") else { return Ok(None) };
        let fd = match fd.parse() {
            Ok(n) if n > 2 => n,
            _ => return Err(StubError::LaunchedSocket(fd)),
        };
        Ok(Some(Self {
            name: env::var("NRI_PLUGIN_NAME").ok(),
            index: env::var("NRI_PLUGIN_IDX").ok(),
            fd,
        }))
    }

    /// Takes the socket over, once per process.
    ///
    /// Owning a descriptor by its number alone is an unsafe operation in Rust. So the process asks
    /// the kernel for a duplicate of its own descriptor (`pidfd_getfd(2)`, Linux 5.6), which is
    /// owned and closed on exec, and closes the number that it inherited, so that children of the
    /// plugin do not hold the connection.
    pub(crate) fn socket(&self) -> Result<UnixStream, StubError> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        if TAKEN.swap(true, Ordering::SeqCst) {
            return Err(StubError::Used); // by now the number may be something else
        }
        let failed = |source| StubError::Inherit { fd: self.fd, source };
        let own = pidfd_open(getpid(), PidfdFlags::empty())
            .and_then(|me| pidfd_getfd(me, self.fd as ForeignRawFd, PidfdGetfdFlags::empty()))
            .map_err(|e| failed(e.into()))?;
        nix::unistd::close(self.fd).map_err(|e| failed(e.into()))?;
        Ok(UnixStream::from(own))
    }
}
