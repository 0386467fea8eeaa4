//! The readiness socket, for probes that must not reach the control socket. `nrid` writes `ready`
//! to each peer, whoever it is, and reads nothing. The socket exists while `nrid` serves requests.

use crate::process::sockets::{self, Socket, SocketError};
use std::{
    fs::{Permissions, set_permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::net::UnixListener;

/// What each peer receives.
const READY: &[u8] = b"ready\n";

/// Pause after an `accept` that failed, for example because descriptors are exhausted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Path of the socket in a state directory.
pub fn path(state_dir: &Path) -> PathBuf {
    state_dir.join(nri_files::READY_SOCKET)
}

/// Creates the socket. Any user may connect; the state directory keeps other users of the host out.
///
/// # Errors
/// The socket cannot be created.
pub fn bind(path: &Path) -> Result<(UnixListener, Socket), SocketError> {
    let bound = sockets::bind(path)?;
    let opened = set_permissions(path, Permissions::from_mode(0o666));
    opened.map_err(|e| SocketError::Listen(path.to_owned(), e))?;
    Ok(bound)
}

/// Writes `ready` to each peer.
pub async fn serve(listener: UnixListener) {
    loop {
        match listener.accept().await {
            // The buffer of a new connection has room.
            Ok((stream, _)) => drop(stream.try_write(READY)),
            Err(error) => {
                tracing::debug!(%error, "cannot accept a probe");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
