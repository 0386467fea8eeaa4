//! Identity and socket of a plugin from its environment: those of the runtime that launched it, or
//! those of the administrator who started it.

use crate::StubError;
use nri_api::PluginId;
use rustix::process::{ForeignRawFd, PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::{
    env,
    os::{fd::RawFd, unix::net::UnixStream},
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

/// Variables of a plugin.
#[derive(Default)]
pub(crate) struct PluginEnvironment {
    /// `NRI_PLUGIN_NAME`.
    pub(crate) name: Option<String>,
    /// `NRI_PLUGIN_IDX`.
    pub(crate) index: Option<String>,
    /// `NRI_PLUGIN_SOCKET`.
    pub(crate) socket: Option<SocketVariable>,
}

/// Value of `NRI_PLUGIN_SOCKET`.
pub(crate) enum SocketVariable {
    /// Descriptor that a launched plugin inherits.
    Inherited(RawFd),
    /// Path of the socket of a runtime: no runtime sets it, an administrator may.
    Path(PathBuf),
}

impl PluginEnvironment {
    /// Reads the variables.
    pub(crate) fn read() -> Result<Self, StubError> {
        let socket = match env::var("NRI_PLUGIN_SOCKET") {
            Err(_) => None,
            Ok(path) if path.starts_with('/') => Some(SocketVariable::Path(path.into())),
            Ok(fd) => match fd.parse() {
                Ok(n) if n > 2 => Some(SocketVariable::Inherited(n)),
                _ => return Err(StubError::SocketVariable(fd)),
            },
        };
        let (name, index) = (env::var("NRI_PLUGIN_NAME").ok(), env::var("NRI_PLUGIN_IDX").ok());
        Ok(Self { name, index, socket })
    }

    /// Whether a runtime launched the plugin.
    pub(crate) fn is_launched(&self) -> bool {
        matches!(self.socket, Some(SocketVariable::Inherited(_)))
    }
}

/// Returns the identity and the socket that a runtime gave to this process, which it launched as a
/// plugin. For programs that serve the protocol themselves, with `nri-wire`; once per process.
///
/// # Errors
/// No runtime launched this process, or the socket cannot be taken over.
pub fn launched() -> Result<(PluginId, UnixStream), StubError> {
    let environment = PluginEnvironment::read()?;
    let missing = |what, variable| StubError::NoIdentity { what, variable };
    let index = environment.index.ok_or_else(|| missing("index", "NRI_PLUGIN_IDX"))?;
    let name = environment.name.ok_or_else(|| missing("name", "NRI_PLUGIN_NAME"))?;
    let Some(SocketVariable::Inherited(fd)) = environment.socket else {
        return Err(StubError::NotLaunched);
    };
    Ok((PluginId::new(&index, &name)?, take_inherited(fd)?))
}

/// Takes over the inherited socket, once per process.
///
/// In Rust, owning a descriptor by its number needs unsafe code. Instead the process duplicates the
/// descriptor with `pidfd_getfd(2)` (Linux 5.6). The duplicate is owned and has close-on-exec set.
/// The inherited number is closed, so that children of the plugin do not keep the connection open.
pub(crate) fn take_inherited(fd: RawFd) -> Result<UnixStream, StubError> {
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    if IS_TAKEN.swap(true, Ordering::SeqCst) {
        return Err(StubError::Used); // the number may already belong to another file
    }
    let failed = |source| StubError::Inherit { fd, source };
    let duplicate = pidfd_open(getpid(), PidfdFlags::empty())
        .and_then(|pidfd| pidfd_getfd(pidfd, fd as ForeignRawFd, PidfdGetfdFlags::empty()))
        .map_err(|e| failed(e.into()))?;
    nix::unistd::close(fd).map_err(|e| failed(e.into()))?;
    Ok(UnixStream::from(duplicate))
}
