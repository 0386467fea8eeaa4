//! The program file of this process. Detects whether another file was installed at its path, and
//! whether a restart with that file was tried.

use parking_lot::{Mutex, MutexGuard};
use std::{
    ffi::OsString,
    fs,
    os::unix::{ffi::OsStringExt, fs::MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Time until a file is tried again after an attempt that failed for another reason than the file:
/// because a file system hung, or because of a plugin.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// Device, inode, size, and time of the last modification.
type Identity = (u64, u64, u64, i64, i64);

/// The program of this process.
#[derive(Debug)]
pub struct Program {
    /// Path of the program.
    pub path: PathBuf,
    identity: Identity,
    last_attempt: Mutex<Attempt>,
}

/// An attempt to replace this program by another file. Each file is tried once, so that wrappers of
/// two versions do not make `nrid` restart endlessly; again only if the cause was not the file.
#[derive(Debug, Default)]
struct Attempt {
    /// The file, unless it is to be tried again.
    file: Option<Identity>,
    error: Option<String>,
    /// Time before which no file is tried.
    paused_until: Option<Instant>,
}

/// Error of an attempt to replace this program.
#[derive(Debug)]
pub struct RestartError {
    /// The error, for the status.
    pub message: String,
    /// Whether the cause is a file system that hangs, or a plugin, and not the file.
    pub is_transient: bool,
}

impl Attempt {
    fn failed(file: Option<Identity>, error: RestartError) -> Self {
        let RestartError { message, is_transient } = error;
        Self {
            file: file.filter(|_| !is_transient),
            error: Some(message),
            paused_until: is_transient.then(|| Instant::now() + RETRY_INTERVAL),
        }
    }
}

impl Program {
    /// Returns the program of this process; `None` if its path or identity cannot be read.
    /// `restart_error`: error of an attempt to run the file that is now at this path.
    pub fn of_this_process(restart_error: Option<RestartError>) -> Option<Self> {
        let link = Path::new("/proc/self/exe");
        let path = fs::read_link(link).ok()?.into_os_string().into_vec();
        // The kernel's suffix for a file that has been removed.
        let path = path.strip_suffix(b" (deleted)").unwrap_or(&path).to_vec();
        let path = PathBuf::from(OsString::from_vec(path));
        let failed = |error| Attempt::failed(identity(&path), error);
        let last_attempt = Mutex::new(restart_error.map(failed).unwrap_or_default());
        Some(Self { path, identity: identity(link)?, last_attempt })
    }

    /// Whether the path now has another file, or no file.
    pub fn is_replaced(&self) -> bool {
        identity(&self.path) != Some(self.identity)
    }

    /// Returns the error of the last attempt.
    pub fn error(&self) -> Option<String> {
        self.attempt().error.clone()
    }

    /// Starts an attempt; `false` if the file at the path is this program or was tried already, or
    /// if a file system hung at the last attempt and the pause has not ended.
    pub fn start_attempt(&self) -> bool {
        let now = identity(&self.path);
        let mut attempt = self.attempt();
        if now.is_none() || now == Some(self.identity) || now == attempt.file {
            return false;
        }
        if attempt.paused_until.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        *attempt = Attempt { file: now, ..Attempt::default() };
        true
    }

    /// Records the error of the attempt, for the status.
    pub fn fail_attempt(&self, error: RestartError) {
        let mut attempt = self.attempt();
        *attempt = Attempt::failed(attempt.file, error);
    }

    fn attempt(&self) -> MutexGuard<'_, Attempt> {
        self.last_attempt.lock()
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
        let install = |text: &str| {
            fs::write(dir.path().join("new"), text).unwrap();
            fs::rename(dir.path().join("new"), &path).unwrap();
        };
        install("one");
        let program = Program {
            path: path.clone(),
            identity: identity(&path).unwrap(),
            last_attempt: Mutex::default(),
        };
        assert!(!program.is_replaced() && !program.start_attempt());
        install("two");
        assert!(program.is_replaced() && program.start_attempt() && !program.start_attempt());
        let error = |is_transient| RestartError { message: "does not run".into(), is_transient };
        program.fail_attempt(error(false));
        assert!(!program.start_attempt());
        install("three!");
        assert!(program.start_attempt() && program.error().is_none());
        program.fail_attempt(error(true));
        assert!(!program.start_attempt() && program.error().is_some(), "tried again at once");
        program.attempt().paused_until = Some(Instant::now());
        assert!(program.start_attempt() && program.error().is_none(), "not tried after the pause");
        assert!(!program.start_attempt());
        fs::remove_file(&path).unwrap();
        assert!(program.is_replaced() && !program.start_attempt(), "a missing file is not tried");
    }
}
