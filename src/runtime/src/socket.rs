//! The socket that external plugins connect to.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use tokio::net::UnixListener;

/// Creates a socket that only its owner can connect to, in place of one that no process listens on.
/// Its directory is created, but none above it: a path that was mistyped must leave no trace.
///
/// # Errors
/// `AddrInUse` if a process listens on the socket, or a file that is no socket has its path.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    if let Some(dir) = path.parent()
        && let Err(error) = DirBuilder::new().mode(0o700).create(dir)
        && error.kind() != ErrorKind::AlreadyExists
    {
        let text = format!("directory {}: {error}", dir.display());
        return Err(io::Error::new(error.kind(), text));
    }
    let is_socket = fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    if is_socket
        && let Err(error) = UnixStream::connect(path)
        && error.kind() == ErrorKind::ConnectionRefused
    {
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_without_listener_is_replaced_and_one_with_listener_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/nri.sock");
        let first = listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(listen(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(first);
        let _second = listen(&path).unwrap();
        UnixStream::connect(&path).unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "kept").unwrap();
        assert_eq!(listen(&file).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert_eq!(fs::read_to_string(file).unwrap(), "kept");
    }

    #[tokio::test]
    async fn directories_above_that_of_the_socket_are_not_created() {
        let dir = tempfile::tempdir().unwrap();
        let error = listen(&dir.path().join("mistyped/nri/nri.sock")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("mistyped/nri: "), "{error}");
        assert!(!dir.path().join("mistyped").exists());
    }
}
