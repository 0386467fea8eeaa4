//! Runs the real runtime as a child and waits for it.
//!
//! The child is what this process would have become by `execve`: same process group, descriptors,
//! working directory, umask, stdio, signal mask and dispositions. Two things differ on purpose: it
//! dies with us (SIGKILL), and a `LISTEN_PID` that meant us means it.

use crate::{Error, call::Call, exec::Target, signals::Signals, sys};
use nix::{
    sys::{prctl::set_pdeathsig, signal::Signal, wait::waitpid},
    unistd::{ForkResult, Pid, getpid, getppid},
};
use nri_control::Exit;
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
};

const LISTEN_PID: &str = "LISTEN_PID";

/// Runs it to its end; signals are as before afterwards.
///
/// # Errors
/// It could not be run.
pub(crate) fn run(target: &Target, call: &Call) -> Result<Exit, Error> {
    let signals = Signals::hold()?;
    let ended = start(target, call, &signals).and_then(|child| signals.wait(child));
    let restored = signals.restore().map_err(|e| Error::System(e.into(), "restore signals"));
    let exit = ended?;
    restored.map(|()| exit)
}

fn start(target: &Target, call: &Call, signals: &Signals) -> Result<Pid, Error> {
    let failed = |what| move |e: io::Error| Error::System(e, what);
    // Closed by a successful `execve`; otherwise the child tells its errno.
    let (reading, writing) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|e| failed("make a pipe")(e.into()))?;
    let parent = getpid();
    match sys::fork().map_err(|e| failed("start a process")(e.into()))? {
        ForkResult::Child => child(target, call, signals, parent, writing),
        ForkResult::Parent { child } => {
            drop(writing);
            match errno_from(reading).map_err(failed("start a process"))? {
                None => Ok(child),
                Some(errno) => {
                    let _ = waitpid(child, None);
                    Err(Error::Exec(io::Error::from_raw_os_error(errno), target.runtime.clone()))
                }
            }
        }
    }
}

/// Becomes the real runtime.
fn child(target: &Target, call: &Call, signals: &Signals, parent: Pid, telling: OwnedFd) -> ! {
    let become_it = || -> io::Error {
        if let Err(e) = set_pdeathsig(Signal::SIGKILL) {
            return e.into();
        }
        // Had it died before, nobody would kill us.
        if getppid() != parent {
            std::process::exit(1);
        }
        let environment = with_listen_pid(call.environment.entries(), parent, getpid());
        match signals.restore() {
            Ok(()) => target.execve(&environment),
            Err(e) => e.into(),
        }
    };
    let errno = become_it().raw_os_error().unwrap_or(0);
    let _ = File::from(telling).write_all(&errno.to_ne_bytes());
    std::process::exit(127);
}

fn errno_from(pipe: OwnedFd) -> io::Result<Option<i32>> {
    let mut errno = Vec::new();
    File::from(pipe).take(4).read_to_end(&mut errno)?;
    Ok(errno.try_into().ok().map(i32::from_ne_bytes))
}

/// sd_listen_fds(3): descriptors are meant for the process with that id.
fn with_listen_pid(environment: &[OsString], us: Pid, child: Pid) -> Vec<OsString> {
    let ours = OsString::from(format!("{LISTEN_PID}={us}"));
    let theirs = OsStr::from_bytes(LISTEN_PID.as_bytes());
    environment
        .iter()
        .map(|entry| {
            if *entry == ours {
                OsString::from(format!("{}={child}", theirs.display()))
            } else {
                entry.clone()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_pid_is_rewritten_if_it_was_ours() {
        let environment = |lines: &[&str]| lines.iter().map(OsString::from).collect::<Vec<_>>();
        let rewritten = |lines: &[&str]| {
            with_listen_pid(&environment(lines), Pid::from_raw(10), Pid::from_raw(11))
        };
        assert_eq!(
            rewritten(&["A", "LISTEN_PID=10", "LISTEN_FDS=2"]),
            environment(&["A", "LISTEN_PID=11", "LISTEN_FDS=2"])
        );
        assert_eq!(
            rewritten(&["LISTEN_PID=1", "XLISTEN_PID=10"]),
            environment(&["LISTEN_PID=1", "XLISTEN_PID=10"])
        );
    }
}
