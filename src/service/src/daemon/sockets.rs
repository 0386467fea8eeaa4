//! Listening sockets: those that were passed, which are kept, and those that `nrid` creates.

use crate::{
    daemon::{
        activation::{Activation, FileId, PassedSocket, file_id, is_same_file},
        shared_socket,
    },
    settings::load::Settings,
};
use rustix::{
    fs::Mode,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with},
};
use std::{
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::DirBuilderExt,
    },
    path::{Path, PathBuf},
};
use tokio::net::UnixListener;

/// Maximum number of connections that wait to be accepted: a burst of creations has one each.
const BACKLOG: i32 = 1024;

/// Name of the socket for plugins in the state directory.
pub const PLUGIN_SOCKET: &str = "nri.sock";

/// A listening socket.
#[derive(Debug)]
pub struct Socket {
    /// Path of the socket.
    pub path: PathBuf,
    /// The file that `nrid` created; `None` if systemd created it.
    pub created: Option<FileId>,
    /// The socket, open for longer than the listener that accepts.
    pub fd: OwnedFd,
}

impl Socket {
    /// Whether the path still is the file that was created. True for sockets of systemd, which
    /// checks them itself.
    pub fn has_path(&self) -> bool {
        self.created.is_none() || file_id(&self.path) == self.created
    }

    /// Removes the file, if it is still the one that was created.
    pub fn remove(&self) {
        if self.created.is_some() && file_id(&self.path) == self.created {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The sockets for plugins.
#[derive(Debug, Default)]
pub struct PluginSockets {
    /// The listeners to serve.
    pub listeners: Vec<UnixListener>,
    /// Their sockets, in the same order.
    pub sockets: Vec<Socket>,
}

/// A socket that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The socket cannot be created, or listened on.
    #[error("socket {0}: {1}")]
    Listen(PathBuf, #[source] io::Error),
    /// The socket unit is for another state directory.
    #[error("the control socket that was passed is {passed}, and callers connect to {control}")]
    OtherStateDir {
        /// Path in the unit.
        passed: PathBuf,
        /// Path in the state directory.
        control: PathBuf,
    },
}

/// Returns the socket of this path: the passed one, or else a new one.
///
/// # Errors
/// The socket cannot be used.
pub fn listen_on(
    path: &Path,
    activation: &mut Activation,
) -> Result<(UnixListener, Socket), SocketError> {
    match take(activation, path)? {
        Some(passed) => Ok(passed),
        None => bind(path),
    }
}

/// Returns the sockets for external plugins: the one in the state directory, the shared one unless
/// another process listens there, and all others that were passed.
///
/// # Errors
/// A socket cannot be used, or the control socket of another state directory was passed.
pub fn plugins(
    settings: &Settings,
    activation: &mut Activation,
) -> Result<PluginSockets, SocketError> {
    let mut found = PluginSockets::default();
    let disabled = settings.config.disable_connections;
    if !disabled {
        found.add(listen_on(&settings.state_dir.join(PLUGIN_SOCKET), activation)?);
        if let Some(path) = shared_socket::plugin_socket(settings)
            && let Some(shared) = shared(path, activation)?
        {
            found.add(shared);
        }
    }
    let control = settings.state_dir.join(nri_control::CONTROL_SOCKET);
    let rest: Vec<_> = activation.sockets.iter().map(|p| p.path.clone()).collect();
    for path in rest.into_iter().filter(|path| !is_same_file(path, &control)) {
        if path.file_name() == control.file_name() {
            return Err(SocketError::OtherStateDir { passed: path, control });
        }
        match take(activation, &path)? {
            // Created before a restart with another configuration.
            Some((_, socket)) if socket.created.is_some() => socket.remove(),
            // Plugins can connect nevertheless, and must not wait for a reply.
            Some((listener, _)) if disabled => drop(tokio::spawn(close_connections(listener))),
            Some(passed) => found.add(passed),
            None => {}
        }
    }
    Ok(found)
}

impl PluginSockets {
    fn add(&mut self, (listener, socket): (UnixListener, Socket)) {
        self.listeners.push(listener);
        self.sockets.push(socket);
    }
}

/// Returns the shared socket, unless another process listens on it.
fn shared(
    path: PathBuf,
    activation: &mut Activation,
) -> Result<Option<(UnixListener, Socket)>, SocketError> {
    if !activation.has(&path) {
        if let Some(pid) = nri_host::listener(&path) {
            let owner = nri_host::describe(pid);
            tracing::warn!(
                socket = %path.display(),
                "plugin socket skipped, {owner} listens on it"
            );
            return Ok(None);
        }
        if let Some(parent) = path.parent() {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(parent);
            made.map_err(|e| SocketError::Listen(path.clone(), e))?;
        }
    }
    let socket = listen_on(&path, activation)?;
    tokio::spawn(shared_socket::watch_socket(path));
    Ok(Some(socket))
}

/// Takes the socket of this path from those that were passed.
fn take(
    activation: &mut Activation,
    path: &Path,
) -> Result<Option<(UnixListener, Socket)>, SocketError> {
    let Some(at) = activation.sockets.iter().position(|passed| is_same_file(&passed.path, path))
    else {
        return Ok(None);
    };
    let PassedSocket { path, listener, created } = activation.sockets.remove(at);
    let listen = || {
        let fd = listener.as_fd().try_clone_to_owned()?;
        listener.set_nonblocking(true)?;
        Ok((UnixListener::from_std(listener)?, fd))
    };
    let (listener, fd) = listen().map_err(|e| SocketError::Listen(path.clone(), e))?;
    Ok(Some((listener, Socket { path, created, fd })))
}

/// Creates a socket that only its owner may connect to, in place of one without a listener.
fn bind(path: &Path) -> Result<(UnixListener, Socket), SocketError> {
    let failed = |e| SocketError::Listen(path.to_owned(), e);
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
        _ => {}
    }
    let listener = listen(path).map_err(failed)?;
    let fd = listener.as_fd().try_clone_to_owned().map_err(failed)?;
    Ok((listener, Socket { path: path.to_owned(), created: file_id(path), fd }))
}

/// Creates a listening socket. Its mode is set before its path exists: so other users can connect
/// at no time, whatever the umask is, and a file that another user puts there is not changed.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    UnixListener::from_std(socket.into())
}

/// Accepts and closes each connection.
async fn close_connections(listener: UnixListener) {
    while listener.accept().await.is_ok() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn other_users_can_at_no_time_connect_to_a_socket() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        // A link at the path is neither followed nor changed.
        let other = dir.path().join("other");
        fs::write(&other, "").unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink("other", &path).unwrap();
        assert!(listen(&path).is_err());
        let (_listener, socket) = bind(&path).unwrap();
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&other)), (0o600, 0o644));
        tokio::net::UnixStream::connect(&path).await.unwrap();
        socket.remove();
        assert!(!path.exists());
    }
}
