//! The sockets that we listen on: made by us, or passed to us by systemd, which goes on listening
//! when we end.

use crate::daemon::{
    sharing,
    start::StartError,
    systemd::{Activation, Passed},
};
use crate::settings::load::Settings;
use rustix::{
    fs::Mode,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with},
};
use std::{
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{DirBuilderExt, MetadataExt},
    },
    path::{Path, PathBuf},
};
use tokio::net::UnixListener;

/// How many callers may wait to be taken in.
const BACKLOG: i32 = 1024;

/// Name of the plugins' socket in the state directory.
pub const PLUGIN_SOCKET: &str = "nri.sock";

/// A socket that we listen on.
#[derive(Debug)]
pub struct Socket {
    /// Its path.
    pub path: PathBuf,
    /// Which file we made there; none if systemd did.
    pub made: Option<(u64, u64)>,
    /// The socket, beside who accepts: it stays when that ends.
    pub fd: OwnedFd,
}

impl Socket {
    /// Whether the path still leads to it, as far as that is ours to know.
    pub fn is_there(&self) -> bool {
        self.made.is_none() || identity(&self.path) == self.made
    }

    /// Removes the file, if it is still the one that we made.
    pub fn remove(&self) {
        if self.made.is_some() && identity(&self.path) == self.made {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The sockets for plugins.
#[derive(Debug, Default)]
pub struct PluginSockets {
    /// To be served.
    pub listeners: Vec<UnixListener>,
    /// What they are, in the same order.
    pub sockets: Vec<Socket>,
}

/// Whether this socket was passed.
pub fn passes(activation: &Activation, path: &Path) -> bool {
    activation.sockets.iter().any(|passed| same(&passed.path, path))
}

/// A socket in our own directory.
///
/// # Errors
/// It cannot be made.
pub fn ours(
    path: &Path,
    activation: &mut Activation,
) -> Result<(UnixListener, Socket), StartError> {
    match take(activation, path)? {
        Some(passed) => Ok(passed),
        None => bind(path),
    }
}

/// The sockets for external plugins: ours, the one that NRI runtimes share unless somebody else
/// listens there, and all others that were passed.
///
/// # Errors
/// One cannot be made, or a control socket of another state directory was passed.
pub fn plugins(
    settings: &Settings,
    activation: &mut Activation,
) -> Result<PluginSockets, StartError> {
    let mut found = PluginSockets::default();
    let disabled = settings.config.disable_connections;
    if !disabled {
        found.add(ours(&settings.state_dir.join(PLUGIN_SOCKET), activation)?);
        if let Some(path) = sharing::plugin_socket(settings)
            && let Some(shared) = shared(path, activation)?
        {
            found.add(shared);
        }
    }
    let control = settings.state_dir.join(nri_control::CONTROL_SOCKET);
    let rest: Vec<_> = activation.sockets.iter().map(|p| p.path.clone()).collect();
    for path in rest.into_iter().filter(|path| !same(path, &control)) {
        if path.file_name() == control.file_name() {
            return Err(StartError::Elsewhere { passed: path, control });
        }
        match take(activation, &path)? {
            // We made it, before a restart, and do not want it any more.
            Some((_, socket)) if socket.made.is_some() => socket.remove(),
            // Plugins can connect all the same, and are not to wait for an answer.
            Some((listener, _)) if disabled => drop(tokio::spawn(refuse(listener))),
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

fn shared(
    path: PathBuf,
    activation: &mut Activation,
) -> Result<Option<(UnixListener, Socket)>, StartError> {
    if !passes(activation, &path) {
        if let Some(pid) = nri_host::listener(&path) {
            let whose = nri_host::describe(pid);
            tracing::warn!(socket = %path.display(), "{whose} listens there: left alone");
            return Ok(None);
        }
        if let Some(parent) = path.parent() {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(parent);
            made.map_err(|e| StartError::Socket(path.clone(), e))?;
        }
    }
    let socket = ours(&path, activation)?;
    tokio::spawn(sharing::watch_socket(path));
    Ok(Some(socket))
}

/// Takes the socket of this path from those that were passed.
fn take(
    activation: &mut Activation,
    path: &Path,
) -> Result<Option<(UnixListener, Socket)>, StartError> {
    let Some(at) = activation.sockets.iter().position(|passed| same(&passed.path, path)) else {
        return Ok(None);
    };
    let Passed { path, listener, made } = activation.sockets.remove(at);
    let listen = || {
        let fd = listener.as_fd().try_clone_to_owned()?;
        listener.set_nonblocking(true)?;
        Ok((UnixListener::from_std(listener)?, fd))
    };
    let (listener, fd) = listen().map_err(|e| StartError::Socket(path.clone(), e))?;
    Ok(Some((listener, Socket { path, made, fd })))
}

/// Whether both are one file; `/var/run` is a link to `/run`.
fn same(a: &Path, b: &Path) -> bool {
    a == b || identity(a).is_some_and(|a| Some(a) == identity(b))
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|m| (m.dev(), m.ino()))
}

/// Makes a socket that only its owner may use, in place of a dead one.
fn bind(path: &Path) -> Result<(UnixListener, Socket), StartError> {
    let failed = |e| StartError::Socket(path.to_owned(), e);
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
        _ => {}
    }
    let listener = listen(path).map_err(failed)?;
    let fd = listener.as_fd().try_clone_to_owned().map_err(failed)?;
    Ok((listener, Socket { path: path.to_owned(), made: identity(path), fd }))
}

/// The mode is the socket's before it has a name: at no time could others connect, whatever the
/// umask, and nothing that somebody puts in its place is touched.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    UnixListener::from_std(socket.into())
}

/// Closes each connection.
async fn refuse(listener: UnixListener) {
    while listener.accept().await.is_ok() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn a_socket_is_its_owners_from_the_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        // What stands there is neither followed nor changed.
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
