//! Check that a program can be executed, and its version. [`defect`] runs `PROGRAM --version`,
//! since only the kernel and the dynamic loader know: a file of another architecture, a script
//! without an interpreter, a library that is missing. Its output is not judged.

use std::{
    io::Read,
    os::{
        fd::AsFd,
        unix::process::{CommandExt, ExitStatusExt},
    },
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Time after which a program is ended: printing a version takes milliseconds.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between two checks whether the program has ended.
const PAUSE: Duration = Duration::from_millis(2);
/// Number of bytes of its standard error that are read.
const MAX_MESSAGE: u64 = 512;
/// Exit codes of a shell, and of the dynamic loader, for what they cannot execute or load.
const CANNOT_EXECUTE: [i32; 2] = [126, 127];

/// Returns why the program cannot be executed, to follow its path and a comma; `None` if it can be.
pub(super) fn defect(path: &Path) -> Option<String> {
    let mut command = Command::new(path);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // A script that calls others is ended with them.
    let mut child = match command.current_dir("/").process_group(0).spawn() {
        Ok(child) => child,
        Err(error) => return Some(format!("which cannot be executed: {error}")),
    };
    let Some(status) = wait(&mut child) else {
        return Some(format!("which did not end within {TIMEOUT:?} when asked for its version"));
    };
    let message = child.stderr.take().and_then(first_line);
    let message = message.map_or(String::new(), |message| format!(": {message}"));
    match (status.code(), status.signal()) {
        (_, Some(signal)) => Some(format!("which signal {signal} ends at its start{message}")),
        (Some(code), _) if CANNOT_EXECUTE.contains(&code) => {
            Some(format!("which fails at its start with exit code {code}{message}"))
        }
        _ => None,
    }
}

/// Returns the first line of the output of `PROGRAM --version`; `None` if there is none in time.
pub(crate) fn version(path: &Path) -> Option<String> {
    let mut command = Command::new(path);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.current_dir("/").process_group(0).spawn().ok()?;
    wait(&mut child)?;
    first_line(child.stdout.take()?)
}

/// Waits until the program ends. After the time limit, kills it and returns `None`.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + TIMEOUT;
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) => thread::sleep(PAUSE),
            Err(_) => break,
        }
    }
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    // It may have ended meanwhile.
    let _ = group
        .map(|group| rustix::process::kill_process_group(group, rustix::process::Signal::KILL));
    let _ = child.wait();
    None
}

/// Returns the first line that a program has written to a pipe. Does not wait for more: a process
/// that it has left behind may keep the pipe open.
fn first_line(pipe: impl Read + AsFd) -> Option<String> {
    rustix::io::ioctl_fionbio(&pipe, true).ok()?;
    let mut bytes = Vec::new();
    // What was read before an error counts.
    let _ = pipe.take(MAX_MESSAGE).read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(nri_values::printable(line).into_owned())
}
