//! The state directory: made where it is missing, and looked at before anything in it is used.
//! Records name programs that are run with our rights, and where the log is written is decided
//! there, so that nobody else may have a say in it.

use nri_trust::{Owners, Untrusted};
use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// Why it cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    /// It cannot be made.
    #[error("state directory {0}: {1}")]
    Make(PathBuf, #[source] io::Error),
    /// Others could change what is in it.
    #[error("state directory {0} is not relied upon: {1}")]
    Untrusted(PathBuf, #[source] Untrusted),
}

/// Makes it, for nobody but us.
///
/// # Errors
/// It cannot be made, or it is there and others could change what is in it.
pub fn make(dir: &Path) -> Result<(), StateDirError> {
    let failed = |e| StateDirError::Make(dir.to_owned(), e);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    let absolute = std::path::absolute(dir).map_err(failed)?;
    Owners::of_this_process()
        .check(&absolute)
        .map_err(|e| StateDirError::Untrusted(dir.to_owned(), e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn it_is_ours_alone() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("a/state");
        make(&state).unwrap();
        assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
        make(&state).unwrap();
        fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).unwrap();
        let error = make(&state).unwrap_err().to_string();
        assert!(
            error.contains("is not relied upon") && error.contains("writable by everybody"),
            "{error}"
        );
        fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink("state", dir.path().join("a/link")).unwrap();
        make(&dir.path().join("a/link")).unwrap();
        if rustix::process::geteuid().is_root() {
            // A directory that somebody made before us, in `/tmp`.
            chown(&state, Some(4711), None).unwrap();
            let error = make(&state).unwrap_err().to_string();
            assert!(error.contains("belongs to user 4711"), "{error}");
        } else {
            println!("skipped: only root can give files away");
        }
    }
}
