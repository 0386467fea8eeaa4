//! Runs programs and keeps their exit status and output.
//!
//! Output goes to files instead of pipes: a container that `create` leaves behind inherits the
//! stdout of the call, and a pipe would stay open until that container ends.

use crate::{wait::timeout, wait_until};
use std::{
    fs::File,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::atomic::{AtomicU32, Ordering},
};

/// The exit status and output of a program that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit code; `None` if a signal ended the program.
    pub code: Option<i32>,
    /// Signal that ended the program.
    pub signal: Option<i32>,
    out: PathBuf,
    err: PathBuf,
}

impl Ended {
    /// Returns stdout, including what the container has written to it since the program ended.
    pub fn out(&self) -> String {
        read(&self.out)
    }

    /// Returns stderr, including what the container has written to it since the program ended.
    pub fn err(&self) -> String {
        read(&self.err)
    }

    /// Checks that the program succeeded.
    ///
    /// # Panics
    /// The exit code is not 0.
    #[track_caller]
    pub fn success(self) -> Self {
        assert_eq!((self.code, self.signal), (Some(0), None), "stderr: {}", self.err());
        self
    }

    /// Checks that the wrapper refused the call, with exit code 1 and one line on stderr, and
    /// returns this line.
    ///
    /// # Panics
    /// The exit code is not 1, or stderr does not have exactly one line.
    #[track_caller]
    pub fn refusal(self) -> String {
        let err = self.err();
        assert_eq!((self.code, self.signal), (Some(1), None), "stderr: {err}");
        assert_eq!(err.lines().count(), 1, "stderr does not have exactly one line: {err}");
        err.trim_end().to_owned()
    }
}

/// Runs a program to its end and writes its output to new files in `dir`.
///
/// # Panics
/// The program cannot be started, or does not end within the timeout.
pub fn run(mut command: Command, dir: &Path) -> Ended {
    let (out, err) = redirect(&mut command, dir);
    let child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    wait(child, &format!("{command:?}"), out, err)
}

/// Redirects the output of a program to new files in `dir`.
pub(crate) fn redirect(command: &mut Command, dir: &Path) -> (PathBuf, PathBuf) {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let number = CALLS.fetch_add(1, Ordering::Relaxed);
    let file = |kind: &str| dir.join(format!("call-{number}.{kind}"));
    let (out, err) = (file("out"), file("err"));
    let create =
        |path: &Path| File::create(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    command.stdout(create(&out)).stderr(create(&err));
    (out, err)
}

/// Waits for the end of a child process, which is killed shortly before the timeout. `what` names
/// the process in the panic message.
pub(crate) fn wait(mut child: Child, what: &str, out: PathBuf, err: PathBuf) -> Ended {
    let deadline = std::time::Instant::now() + timeout();
    let status = wait_until(format_args!("the end of {what}"), || {
        if std::time::Instant::now() + timeout() / 10 > deadline {
            // A kill before the timeout leaves this loop time to reap the process.
            let _ = child.kill();
        }
        child.try_wait().expect("wait for the child process")
    });
    Ended { code: status.code(), signal: status.signal(), out, err }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
