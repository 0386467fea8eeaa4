//! Identity and socket of a plugin that a runtime launched, from its environment.

use crate::StubError;
use rustix::process::{ForeignRawFd, PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::{
    env,
    os::{fd::RawFd, unix::net::UnixStream},
    sync::atomic::{AtomicBool, Ordering},
};

/// Variables that a runtime sets for a launched plugin.
pub(crate) struct Launched {
    pub(crate) name: Option<String>,
    pub(crate) index: Option<String>,
    fd: RawFd,
}

impl Launched {
    /// Reads the environment; `None` if the plugin was not launched by a runtime.
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

    /// Takes over the inherited socket, once per process.
    ///
    /// In Rust, owning a descriptor by its number needs unsafe code. Instead the process duplicates
    /// the descriptor with `pidfd_getfd(2)` (Linux 5.6). The duplicate is owned and has
    /// close-on-exec set. The inherited number is closed, so that children of the plugin do not
    /// keep the connection open.
    pub(crate) fn socket(&self) -> Result<UnixStream, StubError> {
        static IS_TAKEN: AtomicBool = AtomicBool::new(false);
        if IS_TAKEN.swap(true, Ordering::SeqCst) {
            return Err(StubError::Used); // the number may already belong to another file
        }
        let failed = |source| StubError::Inherit { fd: self.fd, source };
        let duplicate = pidfd_open(getpid(), PidfdFlags::empty())
            .and_then(|pidfd| pidfd_getfd(pidfd, self.fd as ForeignRawFd, PidfdGetfdFlags::empty()))
            .map_err(|e| failed(e.into()))?;
        nix::unistd::close(self.fd).map_err(|e| failed(e.into()))?;
        Ok(UnixStream::from(duplicate))
    }
}
