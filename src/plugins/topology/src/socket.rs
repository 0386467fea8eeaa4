//! The socket of `nri-topology status`: whoever connects receives the status as JSON. Nothing is
//! read from a connection.

use crate::status::Status;
use std::{
    fs, io,
    io::Read,
    os::unix::{fs::PermissionsExt, net::UnixStream as Blocking},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{io::AsyncWriteExt, net::UnixListener, task::JoinHandle, time::timeout};

/// Time limit of a reply, for both ends. A client that does not read must not hold memory for ever;
/// on a host with much load, a reply can take seconds.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// A listening socket. Dropping it ends it.
#[derive(Debug)]
pub struct StatusSocket {
    path: PathBuf,
    task: JoinHandle<()>,
}

impl StatusSocket {
    /// Opens a socket that only root can use, in place of one that an earlier process has left.
    /// Needs a tokio runtime.
    ///
    /// # Errors
    /// If the socket cannot be created.
    pub fn open(
        path: &Path,
        status: impl Fn() -> Option<Status> + Send + 'static,
    ) -> io::Result<Self> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let text = status().and_then(|status| serde_json::to_vec(&status).ok());
                let text = text.unwrap_or_default();
                tokio::spawn(timeout(REPLY_TIMEOUT, async move { stream.write_all(&text).await }));
            }
        });
        Ok(Self { path: path.to_owned(), task })
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        self.task.abort();
        // A file that is left is replaced by the next process.
        let _ = fs::remove_file(&self.path);
    }
}

/// Reads the status from the socket of a plugin.
///
/// # Errors
/// If no plugin listens, or it is not configured yet.
pub fn read(path: &Path) -> io::Result<Status> {
    let mut stream = Blocking::connect(path)?;
    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    if text.is_empty() {
        return Err(io::Error::other("the plugin is not connected to a runtime yet"));
    }
    serde_json::from_str(&text).map_err(io::Error::other)
}
