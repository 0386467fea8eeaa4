//! Connects to `nrid`, and starts it if it does not run: once, even if several processes try.
//!
//! A process holds `start.lock` while it starts `nrid` and waits until `nrid` is ready; other
//! processes wait for the lock and then find `nrid` running. The wait for the lock counts toward
//! [`Launcher::timeout`], so that the processes do not wait one after the other for an `nrid` that
//! hangs. `nrid --background` itself makes the daemon independent of the process that started it
//! (session, descriptors, cgroup).

use crate::client::{Client, ClientError};
use nri_files::{CONTROL_SOCKET, LOG_FILE, START_FAILURE, START_LOCK};
use nri_locate::LIBEXEC_DIR;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FlockOperation, Mode, OFlags},
};
use std::{
    fmt::{self, Display, Formatter},
    io::{self, Read},
    os::unix::{
        fs::DirBuilderExt,
        process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Line that `nrid --background` writes to its stdout when it is ready. Any other line is the error
/// of a failed start.
pub const READY: &str = "ready";

/// Length limit of the line from `nrid --background` in bytes; errors are shorter.
const MAX_LINE: usize = 4096;
/// First and longest pause between two checks of a lock or a child process.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];

/// Parameters to connect to `nrid` and to start it.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The program; `None` if it was not found.
    pub program: Option<PathBuf>,
    /// The state directory.
    pub state_dir: PathBuf,
    /// The configuration file, if the caller names one.
    pub config: Option<PathBuf>,
    /// Time limit of a start.
    pub timeout: Duration,
}

/// Reason why `nrid` cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// `nrid` runs, but the connection fails.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The program was not found.
    #[error("no executable nrid beside this program, in {LIBEXEC_DIR}, or in PATH")]
    NotFound,
    /// The state directory cannot be used.
    #[error("state directory {dir}: {source}")]
    StateDir {
        /// Path of the directory.
        dir: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The program cannot be executed.
    #[error("cannot start {program}: {source}")]
    Spawn {
        /// Path of the program.
        program: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// `nrid` reported that it cannot start, with this reason.
    #[error("nrid did not start: {reason}{log}")]
    Refused {
        /// What `nrid` reported.
        reason: String,
        /// Where its log is.
        log: LogHint,
    },
    /// `nrid` ended and reported nothing.
    #[error("nrid did not start: it exited without a message{ended}{log}")]
    Silent {
        /// How it ended.
        ended: Ended,
        /// Where its log is.
        log: LogHint,
    },
    /// `nrid` did not become ready in time.
    #[error(
        "nrid was not ready within {limit:?}; its log is {}, unless [log] names another",
        state_dir.join(LOG_FILE).display()
    )]
    Timeout {
        /// How long the launcher has waited.
        limit: Duration,
        /// The state directory.
        state_dir: PathBuf,
    },
}

/// The log of an `nrid` that did not start; empty if there is none in the state directory.
#[derive(Debug)]
pub struct LogHint(Option<PathBuf>);

impl LogHint {
    fn of(state_dir: &Path) -> Self {
        Self(Some(state_dir.join(LOG_FILE)).filter(|log| log.exists()))
    }
}

impl Display for LogHint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |log| write!(f, "; its log is {}", log.display()))
    }
}

/// How the process of `nrid --background` ended; shown in brackets unless it succeeded, which says
/// nothing about the daemon that it has forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended(Option<ExitStatus>);

impl Display for Ended {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(status) = self.0.filter(|status| !status.success()) else { return Ok(()) };
        match (status.code(), status.signal()) {
            (Some(code), _) => write!(f, " (exit code {code})"),
            (None, Some(signal)) => write!(f, " (ended by signal {signal})"),
            (None, None) => Ok(()),
        }
    }
}

impl Launcher {
    /// Path of the control socket.
    pub fn socket(&self) -> PathBuf {
        self.state_dir.join(CONTROL_SOCKET)
    }

    /// Connects to a running `nrid`.
    ///
    /// # Errors
    /// `nrid` does not run, or the connection fails.
    pub fn connect(&self) -> Result<Client, ClientError> {
        Client::connect(&self.socket())
    }

    /// Connects, after starting `nrid` if it does not run.
    ///
    /// # Errors
    /// `nrid` cannot be started or does not become ready in time.
    pub fn connect_or_start(&self) -> Result<Client, LaunchError> {
        match self.connect() {
            Err(ClientError::Connect(e)) if is_not_running(&e) => self.start(),
            other => Ok(other?),
        }
    }

    fn start(&self) -> Result<Client, LaunchError> {
        // Do not create the state directory if there is no program to start.
        if self.program.is_none() {
            return Err(LaunchError::NotFound);
        }
        let deadline = Instant::now() + self.timeout;
        let dir_error =
            |source: io::Error| LaunchError::StateDir { dir: self.state_dir.clone(), source };
        make_private_dir(&self.state_dir).map_err(dir_error)?;
        let lock = rustix::fs::open(
            self.state_dir.join(START_LOCK),
            OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW,
            Mode::RUSR | Mode::WUSR,
        )
        .map_err(|e| dir_error(e.into()))?;
        let mut locked = Ok(());
        let is_locked = poll_until(deadline, || {
            match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => false,
                result => {
                    locked = result;
                    true
                }
            }
        });
        locked.map_err(|e| dir_error(e.into()))?;
        if !is_locked {
            return Err(LaunchError::Timeout {
                limit: self.timeout,
                state_dir: self.state_dir.clone(),
            });
        }
        // Another process may have started nrid while this one waited for the lock.
        match self.connect() {
            Err(ClientError::Connect(e)) if is_not_running(&e) => {}
            other => return Ok(other?),
        }
        // A process that was killed may have started another nrid. If any nrid listens now, it is
        // used, even if the start by this process failed.
        let started = self.spawn_and_wait(deadline);
        match self.connect() {
            Err(ClientError::Connect(e)) if is_not_running(&e) => {
                if let Err(error) = &started {
                    self.keep_failure(error);
                }
                started.and(Err(ClientError::Connect(e).into()))
            }
            other => Ok(other?),
        }
    }

    /// Writes the file with the reason of a failed start, for `nrictl doctor`, if `nrid` could not
    /// write it.
    fn keep_failure(&self, error: &LaunchError) {
        let why = match error {
            LaunchError::Silent { ended, .. } => format!("it exited without a message{ended}"),
            LaunchError::Spawn { .. } => error.to_string(),
            _ => return,
        };
        // The caller reports the error as well.
        let _ = std::fs::write(self.state_dir.join(START_FAILURE), why + "\n");
    }

    fn spawn_and_wait(&self, deadline: Instant) -> Result<(), LaunchError> {
        let program = self.program.as_ref().ok_or(LaunchError::NotFound)?;
        let mut command = Command::new(program);
        command.arg("--background").arg("--state-dir").arg(&self.state_dir);
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        // In a separate process group, nrid does not receive signals to the caller's group.
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .current_dir("/")
            .process_group(0)
            .spawn()
            .map_err(|source| LaunchError::Spawn { program: program.clone(), source })?;
        let reply = child.stdout.take().map(|pipe| read_line(pipe, deadline));
        // The started process forks the daemon and exits soon.
        let ended = reap(
            &mut child,
            if matches!(reply, Some(Ok(Some(_)))) { deadline } else { Instant::now() },
        );
        match reply {
            Some(Ok(Some(line))) => match line.as_str() {
                READY => Ok(()),
                "" => Err(LaunchError::Silent {
                    ended: Ended(ended),
                    log: LogHint::of(&self.state_dir),
                }),
                _ => Err(LaunchError::Refused { reason: line, log: LogHint::of(&self.state_dir) }),
            },
            Some(Ok(None)) | None => {
                Err(LaunchError::Timeout { limit: self.timeout, state_dir: self.state_dir.clone() })
            }
            Some(Err(source)) => Err(LaunchError::Spawn { program: program.clone(), source }),
        }
    }
}

/// Repeats `check` until it succeeds or the deadline passes. Returns whether it succeeded.
fn poll_until(deadline: Instant, mut check: impl FnMut() -> bool) -> bool {
    let [mut pause, longest] = PAUSES;
    loop {
        if check() {
            return true;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        thread::sleep(pause.min(left));
        pause = (pause * 2).min(longest);
    }
}

/// Waits until the child exits, and kills it after the deadline. Returns how it ended by itself.
fn reap(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    let mut ended = None;
    let has_ended = poll_until(deadline, || match child.try_wait() {
        Ok(None) => false,
        result => {
            ended = result.ok().flatten();
            true
        }
    });
    if !has_ended {
        let _ = child.kill();
        let _ = child.wait();
    }
    ended
}

fn is_not_running(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// Creates `dir` and missing parents with mode 0700. Fails if other users can write to it.
fn make_private_dir(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let meta = std::fs::symlink_metadata(dir)?;
    let own_uid = rustix::process::geteuid().as_raw();
    if !meta.is_dir() || meta.uid() != own_uid || meta.mode() & 0o022 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("must be a directory of user {own_uid} that no other user can write to"),
        ));
    }
    Ok(())
}

/// Reads the first line from `pipe`. Returns `None` after the deadline, and an empty line if there
/// is none.
fn read_line(
    mut pipe: impl Read + std::os::fd::AsFd,
    deadline: Instant,
) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let ready = match poll(&mut [PollFd::new(&pipe, PollFlags::IN)], Some(&left)) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        if ready == 0 {
            return Ok(None);
        }
        let mut buffer = [0; 4096];
        let n = pipe.read(&mut buffer)?;
        line.extend_from_slice(&buffer[..n]);
        let end = line.iter().position(|b| *b == b'\n');
        if let Some(end) = end.or((line.len() > MAX_LINE).then_some(MAX_LINE)) {
            line.truncate(end);
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
        if n == 0 {
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Starts a shell script in place of nrid. Returns the error and how long the start took.
    fn start(dir: &Path, script: &str, timeout: Duration) -> (LaunchError, Duration) {
        let program = dir.join("nrid");
        // Written by another process: a child that another test forks meanwhile would keep the file
        // open for writing, and executing it would fail (ETXTBSY).
        fs::write(dir.join("source"), format!("#!/bin/sh\n{script}\n")).unwrap();
        let mut install = std::process::Command::new("install");
        install.arg("-m755").args([&dir.join("source"), &program]);
        assert!(install.status().unwrap().success());
        let launcher =
            Launcher { program: Some(program), state_dir: dir.join("s"), config: None, timeout };
        let begin = Instant::now();
        (launcher.connect_or_start().unwrap_err(), begin.elapsed())
    }

    /// Timeout for programs that do not become ready.
    const SHORT: Duration = Duration::from_millis(300);
    /// Timeout for programs that fail before it passes.
    const LONG: Duration = Duration::from_secs(1000);
    /// Longest time that a start may take: enough on a busy machine, far less than [`LONG`].
    const START_LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn a_program_that_does_not_become_ready_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        for (script, timeout, expected) in [
            ("exit 0", LONG, "nrid did not start: it exited without a message"),
            ("exit 1", LONG, "nrid did not start: it exited without a message (exit code 1)"),
            (
                "kill -9 $$",
                LONG,
                "nrid did not start: it exited without a message (ended by signal 9)",
            ),
            ("echo why; exit 1", LONG, "nrid did not start: why"),
            ("exec sleep 1000", SHORT, "nrid was not ready within 300ms"),
            ("exec >&-; exec sleep 1000", SHORT, "nrid did not start: it exited without a message"),
            ("while :; do echo -n xxxxxxxxxxxxxxxx; done", SHORT, "nrid did not start: xxxx"),
        ] {
            let failure = dir.path().join("s").join(START_FAILURE);
            let _ = fs::remove_file(&failure);
            let (e, took) = start(dir.path(), script, timeout);
            assert!(e.to_string().starts_with(expected), "{script}: {e}");
            assert!(took < START_LIMIT, "{script}: {took:?}");
            // An nrid with a message has written the file itself.
            let kept = fs::read_to_string(&failure).ok();
            let silent = expected.strip_prefix("nrid did not start: it exited");
            assert_eq!(kept, silent.map(|how| format!("it exited{how}\n")), "{script}");
        }
    }

    #[test]
    fn the_error_of_a_failed_start_names_the_log_if_there_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("s").join(LOG_FILE);
        for (script, expected) in
            [("exit 3", "it exited without a message (exit code 3)"), ("echo why; exit 1", "why")]
        {
            let script = format!("echo line >>{}; {script}", log.display());
            let (e, _) = start(dir.path(), &script, LONG);
            let expected = format!("nrid did not start: {expected}; its log is {}", log.display());
            assert_eq!(e.to_string(), expected);
        }
    }

    #[test]
    fn waiting_for_the_start_lock_ends_with_the_timeout() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("s");
        fs::DirBuilder::new().mode(0o700).create(&state).unwrap();
        let lock = fs::File::create(state.join(START_LOCK)).unwrap();
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).unwrap();
        let (e, took) = start(dir.path(), "echo it was started", SHORT);
        assert!(matches!(e, LaunchError::Timeout { limit: SHORT, .. }), "{e}");
        assert!(took >= SHORT && took < START_LIMIT, "{took:?}");
    }
}
