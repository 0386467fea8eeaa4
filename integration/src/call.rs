//! Calling a program and keeping what it says.
//!
//! Output goes to files, not pipes: a container that `create` leaves behind keeps its caller's
//! stdout, and a pipe would not end before it.

use crate::{wait::timeout, wait_until};
use std::{
    fs::File,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::atomic::{AtomicU32, Ordering},
};

/// What came of a call.
#[derive(Debug)]
pub struct Ended {
    /// Exit code, if it was not a signal that ended it.
    pub code: Option<i32>,
    /// The signal.
    pub signal: Option<i32>,
    out: PathBuf,
    err: PathBuf,
}

impl Ended {
    /// Stdout so far; what a container writes later to the same file is in it, too.
    pub fn out(&self) -> String {
        read(&self.out)
    }

    /// Stderr so far.
    pub fn err(&self) -> String {
        read(&self.err)
    }

    /// The same, if it was a success.
    ///
    /// # Panics
    /// It was not.
    #[track_caller]
    pub fn success(self) -> Self {
        assert_eq!((self.code, self.signal), (Some(0), None), "stderr: {}", self.err());
        self
    }

    /// Stderr, if the exit code was 1 and it is one line.
    ///
    /// # Panics
    /// It was not.
    #[track_caller]
    pub fn refusal(self) -> String {
        let err = self.err();
        assert_eq!((self.code, self.signal), (Some(1), None), "stderr: {err}");
        assert_eq!(err.lines().count(), 1, "one line is expected: {err}");
        err.trim_end().to_owned()
    }
}

/// Runs a program to its end, its output stop to new files in `dir`.
///
/// # Panics
/// It cannot be started, or does not end.
pub fn run(mut command: Command, dir: &Path) -> Ended {
    let (out, err) = redirect(&mut command, dir);
    let child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    wait(child, &format!("{command:?}"), out, err)
}

/// Lets a program's output go to new files in `dir`.
pub(crate) fn redirect(command: &mut Command, dir: &Path) -> (PathBuf, PathBuf) {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let n = CALLS.fetch_add(1, Ordering::Relaxed);
    let (out, err) = (dir.join(format!("call-{n}.out")), dir.join(format!("call-{n}.err")));
    let create =
        |path: &Path| File::create(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    command.stdout(create(&out)).stderr(create(&err));
    (out, err)
}

pub(crate) fn wait(mut child: Child, what: &str, out: PathBuf, err: PathBuf) -> Ended {
    let deadline = std::time::Instant::now() + timeout();
    let status = wait_until(format_args!("the end of {what}"), || {
        if std::time::Instant::now() + timeout() / 10 > deadline {
            // Late, so that what is left of the patience sees its end, and no process stays.
            let _ = child.kill();
        }
        child.try_wait().expect("a child can be waited for")
    });
    Ended { code: status.code(), signal: status.signal(), out, err }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
