//! Listening sockets. `nrid` keeps sockets that were passed to it, and creates the others.

use crate::{
    plugins::shared_socket,
    process::activation::{Activation, FileId, PassedSocket, file_id, is_same_file},
    settings::load::Settings,
};
use nri_trust::{Owners, Untrusted};
use rustix::{
    fs::Mode,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with},
};
use std::{
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};
use tokio::net::UnixListener;

/// Maximum number of connections that wait to be accepted. Each creation of a burst has one
/// connection; the kernel's limit `net.core.somaxconn` also applies.
const BACKLOG: i32 = 1024;

/// Directory in the state directory for sockets that containers may have: a plugin in a container
/// mounts this directory, and does not get the control socket with it.
pub const PLUGIN_DIR: &str = "plugins";

/// Name of two sockets for plugins: in [`PLUGIN_DIR`], and in the state directory itself, for
/// plugins on the host that are configured with that path.
pub const PLUGIN_SOCKET: &str = "nri.sock";

/// A listening socket.
#[derive(Debug)]
pub struct Socket {
    /// Path of the socket.
    pub path: PathBuf,
    /// The file that `nrid` created; `None` if systemd created it.
    pub created: Option<FileId>,
    /// The file at the path when the socket was created or passed.
    file: Option<FileId>,
    /// The socket. It stays open when the listener that accepts connections is dropped.
    pub fd: OwnedFd,
}

impl Socket {
    /// Whether the file at the path is still the file of this socket.
    pub fn is_at_path(&self) -> bool {
        file_id(&self.path) == self.file
    }

    /// Removes the file at the path, if it still is the one that `nrid` created.
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
    /// The sockets of the listeners, in the same order.
    pub sockets: Vec<Socket>,
}

/// A socket that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The socket cannot be created, or listened on.
    #[error("socket {0}: {1}")]
    Listen(PathBuf, #[source] io::Error),
    /// The directory of a socket cannot be created.
    #[error("directory {0}: {1}")]
    Directory(PathBuf, #[source] io::Error),
    /// The socket unit is for another state directory.
    #[error(
        "the control socket that systemd passed is {passed}, but callers connect to {control}: \
         correct the socket unit or state_dir"
    )]
    OtherStateDir {
        /// Path in the unit.
        passed: PathBuf,
        /// Path in the state directory.
        control: PathBuf,
    },
}

/// Reason why a path is not used for a socket.
#[derive(Debug, thiserror::Error)]
pub enum UnusablePath {
    /// The path is relative, and the working directory is unknown.
    #[error(transparent)]
    WorkingDir(#[from] io::Error),
    /// Other users could replace the socket.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    /// The file at the path is not a socket.
    #[error("the file at this path is not a socket; remove it, or configure another path")]
    NotASocket,
    /// Another user has created the socket.
    #[error("the socket at this path belongs to user {0}")]
    OtherUser(u32),
}

/// Returns the socket that was passed for this path, or creates one.
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

/// Returns the sockets for external plugins: the two in the state directory, the shared one unless
/// it cannot be used, and all others that were passed.
///
/// # Errors
/// A socket cannot be used, or the control socket of another state directory was passed.
pub fn plugins(
    settings: &Settings,
    activation: &mut Activation,
) -> Result<PluginSockets, SocketError> {
    let mut found = PluginSockets::default();
    create_plugin_dir(&settings.state_dir.join(PLUGIN_DIR))?;
    let disabled = settings.config.disable_connections;
    if !disabled {
        let dir = settings.state_dir.join(PLUGIN_DIR);
        found.add(listen_on(&dir.join(PLUGIN_SOCKET), activation)?);
        found.add(listen_on(&settings.state_dir.join(PLUGIN_SOCKET), activation)?);
        if let Some(path) = shared_socket::plugin_socket(settings)
            && let Some(shared) = shared(path, activation)?
        {
            found.add(shared);
        }
    }
    let control = settings.state_dir.join(nri_files::CONTROL_SOCKET);
    let rest: Vec<_> = activation.sockets.iter().map(|p| p.path.clone()).collect();
    for path in rest.into_iter().filter(|path| !is_same_file(path, &control)) {
        if path.file_name() == control.file_name() {
            return Err(SocketError::OtherStateDir { passed: path, control });
        }
        match take(activation, &path)? {
            // nrid created the socket before a restart, under another configuration.
            Some((_, socket)) if socket.created.is_some() => socket.remove(),
            // systemd's socket still accepts connections: close them, so that no plugin waits.
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

/// Creates the directory of the sockets for plugins. Others may enter it: a probe in a container
/// need not be root, and on the host the state directory keeps other users out.
///
/// # Errors
/// The directory cannot be created.
pub fn create_plugin_dir(dir: &Path) -> Result<(), SocketError> {
    let failed = |e| SocketError::Directory(dir.to_owned(), e);
    fs::DirBuilder::new().recursive(true).mode(0o755).create(dir).map_err(failed)?;
    // The umask, or the systemd unit, may have set another mode.
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).map_err(failed)
}

/// Returns the shared socket, unless another process listens on it, or its path cannot be used
/// safely.
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
            let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(parent);
            created.map_err(|e| SocketError::Listen(path.clone(), e))?;
        }
        if let Err(error) = check_replaceable(&path) {
            tracing::error!(socket = %path.display(), %error, "plugin socket skipped");
            return Ok(None);
        }
    }
    Ok(Some(listen_on(&path, activation)?))
}

/// Checks that no other user can replace the socket at a path outside of the state directory, and
/// that a file there is a socket that an earlier `nrid` left. The caller has checked that no other
/// process listens on it.
///
/// # Errors
/// The path cannot be used safely.
pub fn check_replaceable(path: &Path) -> Result<(), UnusablePath> {
    let owners = Owners::of_this_process();
    let parent = path.parent().unwrap_or(Path::new("/"));
    owners.check(&std::path::absolute(parent)?)?;
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
    if !meta.file_type().is_socket() {
        return Err(UnusablePath::NotASocket);
    }
    if !owners.contains(meta.uid()) {
        return Err(UnusablePath::OtherUser(meta.uid()));
    }
    Ok(())
}

/// Takes the socket with this path from the sockets that were passed.
fn take(
    activation: &mut Activation,
    path: &Path,
) -> Result<Option<(UnixListener, Socket)>, SocketError> {
    let Some(index) = activation.sockets.iter().position(|passed| is_same_file(&passed.path, path))
    else {
        return Ok(None);
    };
    let PassedSocket { path, listener, created } = activation.sockets.remove(index);
    let listen = || {
        let fd = listener.as_fd().try_clone_to_owned()?;
        listener.set_nonblocking(true)?;
        Ok((UnixListener::from_std(listener)?, fd))
    };
    let (listener, fd) = listen().map_err(|e| SocketError::Listen(path.clone(), e))?;
    let file = created.or_else(|| file_id(&path));
    Ok(Some((listener, Socket { path, created, file, fd })))
}

/// Creates a socket that only its owner may connect to. An existing file at the path is removed:
/// the caller ensures that no process listens on it.
///
/// # Errors
/// The socket cannot be created.
pub fn bind(path: &Path) -> Result<(UnixListener, Socket), SocketError> {
    let failed = |e| SocketError::Listen(path.to_owned(), e);
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
        _ => {}
    }
    let listener = listen(path).map_err(failed)?;
    let fd = listener.as_fd().try_clone_to_owned().map_err(failed)?;
    let created = file_id(path);
    Ok((listener, Socket { path: path.to_owned(), created, file: created, fd }))
}

/// Creates a listening socket. Its mode is set before its path exists. Therefore other users cannot
/// connect at any time, whatever the umask is, and the mode of a file that another user puts at the
/// path is not changed.
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

    #[tokio::test]
    async fn other_users_can_never_connect_to_a_socket() {
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

    #[test]
    fn only_a_socket_that_nrid_left_may_be_replaced_at_the_shared_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("d/s");
        fs::create_dir(dir.path().join("d")).unwrap();
        let check = |expected: &str| {
            let error = check_replaceable(&path).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains(expected) && error.is_empty() == expected.is_empty(), "{error}");
        };
        check("");
        fs::write(&path, "kept").unwrap();
        check("is not a socket");
        assert_eq!(fs::read(&path).unwrap(), b"kept");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("other", &path).unwrap();
        check("is not a socket");
        fs::remove_file(&path).unwrap();
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        check("");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(4711), None).unwrap();
            check("belongs to user 4711");
        }
        fs::set_permissions(dir.path().join("d"), fs::Permissions::from_mode(0o777)).unwrap();
        check("writable by everybody");
    }
}
