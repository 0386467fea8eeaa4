//! Runs the real runtime as a child and waits for it.
//!
//! The child has the attributes that this process would have after `execve`: process group,
//! descriptors, working directory, umask, stdio, signal mask and dispositions. Two differences are
//! intended: the kernel kills it (SIGKILL) when this process dies, and a `LISTEN_PID` of this
//! process is replaced by the child's.

use super::{signals::Signals, sys, target::Target};
use crate::{call::Call, error::Error};
use nix::{
    sys::{prctl::set_pdeathsig, signal::Signal, wait::waitpid},
    unistd::{Pid, getpid, getppid},
};
use nri_control::Exit;
use std::{ffi::OsString, io};

const LISTEN_PID: &str = "LISTEN_PID";

/// Runs the real runtime until it exits. The signal mask and dispositions are restored.
///
/// # Errors
/// The real runtime could not be executed, or signals could not be handled.
pub(crate) fn spawn_and_wait(target: &Target, call: &Call) -> Result<Exit, Error> {
    let signals = Signals::block()?;
    let ended = start(target, call, &signals).and_then(|child| signals.wait(child));
    let restored = signals.restore().map_err(|e| Error::System(e.into(), "restore signals"));
    let exit = ended?;
    restored.map(|()| exit)
}

fn start(target: &Target, call: &Call, signals: &Signals) -> Result<Pid, Error> {
    let parent = getpid();
    let mut failure = None;
    let child = sys::start(|| failure = Some(replace(target, call, signals, parent)))
        .map_err(|e| Error::System(e.into(), "start a process"))?;
    match failure {
        None => Ok(child),
        Some(e) => {
            let _ = waitpid(child, None);
            Err(Error::Exec(e, target.runtime.clone()))
        }
    }
}

/// Replaces the child by the real runtime. Returns only if that fails, or if the parent has died.
fn replace(target: &Target, call: &Call, signals: &Signals, parent: Pid) -> io::Error {
    if let Err(e) = set_pdeathsig(Signal::SIGKILL) {
        return e.into();
    }
    // If the parent died before `set_pdeathsig`, no signal is sent.
    if getppid() != parent {
        return io::ErrorKind::Interrupted.into();
    }
    let environment = with_listen_pid(call.environment.entries(), parent, getpid());
    match signals.restore() {
        Ok(()) => target.execve(&environment),
        Err(e) => e.into(),
    }
}

/// Returns the environment with this process's `LISTEN_PID` replaced by the child's:
/// sd_listen_fds(3) accepts descriptors only in the process with that id.
fn with_listen_pid(environment: &[OsString], parent: Pid, child: Pid) -> Vec<OsString> {
    let entry_for = |pid| OsString::from(format!("{LISTEN_PID}={pid}"));
    let (before, after) = (entry_for(parent), entry_for(child));
    environment
        .iter()
        .map(|entry| if *entry == before { after.clone() } else { entry.clone() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_pid_of_the_wrapper_is_replaced_by_that_of_the_runtime() {
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
