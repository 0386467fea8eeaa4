//! The program file of this process. Detects whether another file was installed at its path, and
//! whether a restart with that file was tried.

use std::{
    ffi::OsString,
    fs,
    os::unix::{ffi::OsStringExt, fs::MetadataExt},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Device, inode, size, and time of the last change.
type Identity = (u64, u64, u64, i64, i64);

/// The program of this process.
#[derive(Debug)]
pub struct Program {
    /// Path of the program.
    pub path: PathBuf,
    identity: Identity,
    last_attempt: Mutex<Attempt>,
}

/// An attempt to replace this program by another file. Each file is tried once, so that callers of
/// two versions do not make `nrid` restart for ever.
#[derive(Debug, Default)]
struct Attempt {
    file: Option<Identity>,
    error: Option<String>,
}

impl Program {
    /// Returns the program of this process; `None` if its path or identity cannot be read.
    /// `failed`: error of an attempt to run the present file at its path.
    pub fn of_this_process(failed: Option<String>) -> Option<Self> {
        let link = Path::new("/proc/self/exe");
        let path = fs::read_link(link).ok()?.into_os_string().into_vec();
        // The kernel's suffix for a file that has been removed.
        let path = path.strip_suffix(b" (deleted)").unwrap_or(&path).to_vec();
        let path = PathBuf::from(OsString::from_vec(path));
        let file = failed.is_some().then(|| identity(&path)).flatten();
        let last_attempt = Mutex::new(Attempt { file, error: failed });
        Some(Self { path, identity: identity(link)?, last_attempt })
    }

    /// Whether the path now has another file, or none.
    pub fn is_replaced(&self) -> bool {
        identity(&self.path) != Some(self.identity)
    }

    /// Error of the last attempt.
    pub fn error(&self) -> Option<String> {
        self.attempt().error.clone()
    }

    /// Starts an attempt; `false` if the file at the path is this program or was tried already.
    pub fn start_attempt(&self) -> bool {
        let now = identity(&self.path);
        let mut attempt = self.attempt();
        if now.is_none() || now == Some(self.identity) || now == attempt.file {
            return false;
        }
        *attempt = Attempt { file: now, error: None };
        true
    }

    /// Records the error of the attempt, for the status.
    pub fn fail_attempt(&self, message: String) {
        self.attempt().error = Some(message);
    }

    fn attempt(&self) -> MutexGuard<'_, Attempt> {
        self.last_attempt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn identity(path: &Path) -> Option<Identity> {
    let meta = fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_replaces_the_program_is_tried_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nrid");
        let put = |text: &str| {
            fs::write(dir.path().join("new"), text).unwrap();
            fs::rename(dir.path().join("new"), &path).unwrap();
        };
        put("one");
        let program = Program {
            path: path.clone(),
            identity: identity(&path).unwrap(),
            last_attempt: Mutex::default(),
        };
        assert!(!program.is_replaced() && !program.start_attempt());
        put("two");
        assert!(program.is_replaced() && program.start_attempt() && !program.start_attempt());
        program.fail_attempt("does not run".to_owned());
        assert!(!program.start_attempt());
        put("three!");
        assert!(program.start_attempt() && program.error().is_none());
        fs::remove_file(&path).unwrap();
        assert!(program.is_replaced() && !program.start_attempt(), "the path has no file");
    }
}
