//! The state directory: created if missing, and checked before anything in it is used. Its records
//! name programs that `nrid` runs as root, so other users must not be able to change it.

use nri_trust::{Owners, Untrusted};
use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// A state directory that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    /// The directory cannot be created.
    #[error("state directory {dir}: {source}")]
    Create {
        /// Path of the directory.
        dir: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// Other users could change the directory or its files.
    #[error("state directory {dir} is not trusted: {source}")]
    Untrusted {
        /// Path of the directory.
        dir: PathBuf,
        /// Who could change what.
        source: Untrusted,
    },
}

/// Creates the directory, accessible to its owner only, or checks the existing one.
///
/// # Errors
/// The directory cannot be created, or other users could change it or its files.
pub fn create(dir: &Path) -> Result<(), StateDirError> {
    let failed = |source| StateDirError::Create { dir: dir.to_owned(), source };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    check(dir)
}

/// Checks an existing directory.
///
/// # Errors
/// Other users could change the directory or its files.
pub fn check(dir: &Path) -> Result<(), StateDirError> {
    let failed = |source| StateDirError::Create { dir: dir.to_owned(), source };
    let absolute = std::path::absolute(dir).map_err(failed)?;
    Owners::of_this_process()
        .check(&absolute)
        .map_err(|source| StateDirError::Untrusted { dir: dir.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn a_state_directory_that_others_can_change_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("a/state");
        create(&state).unwrap();
        assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
        create(&state).unwrap();
        fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).unwrap();
        let error = create(&state).unwrap_err().to_string();
        assert!(
            error.contains("is not trusted") && error.contains("writable by everybody"),
            "{error}"
        );
        fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink("state", dir.path().join("a/link")).unwrap();
        create(&dir.path().join("a/link")).unwrap();
        if rustix::process::geteuid().is_root() {
            // Like a directory that another user has created in `/tmp` before.
            chown(&state, Some(4711), None).unwrap();
            let error = create(&state).unwrap_err().to_string();
            assert!(error.contains("belongs to user 4711"), "{error}");
        } else {
            println!("skipped: only root can change the owner of a file");
        }
    }
}
