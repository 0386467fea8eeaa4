//! Runs the real runtime as a child and waits for it.
//!
//! The child has the attributes that this process would have after `execve`: process group,
//! descriptors, working directory, umask, stdio, signal mask and dispositions. Two differences are
//! intended: the kernel kills the child (SIGKILL) when this process dies, and a `LISTEN_PID` of
//! this process is replaced by the child's.

use super::{
    signals::Signals,
    sys::{self, Program},
    target::Target,
};
use crate::{call::Call, error::Error};
use nix::{
    sys::{prctl::set_pdeathsig, signal::Signal, wait::waitpid},
    unistd::{Pid, getpid, getppid},
};
use nri_control::Exit;
use std::io;

/// Runs the real runtime until it exits. The signal mask and dispositions are restored.
///
/// # Errors
/// The real runtime could not be executed, or signals could not be handled.
pub(crate) fn spawn_and_wait(target: &Target, call: &Call) -> Result<Exit, Error> {
    let signals = Signals::block()?;
    let ended = start(target, call, &signals).and_then(|child| signals.wait(child));
    let restored = signals
        .restore()
        .map_err(|e| Error::System { action: "restore signals", source: e.into() });
    let exit = ended?;
    restored.map(|()| exit)
}

fn start(target: &Target, call: &Call, signals: &Signals) -> Result<Pid, Error> {
    let parent = getpid();
    let program = target.prepare(&call.entries);
    let mut program =
        program.map_err(|source| Error::Exec { path: target.runtime.clone(), source })?;
    let mut failure = None;
    let child = sys::start(|| failure = Some(replace(target, &mut program, signals, parent)))
        .map_err(|e| Error::System { action: "start a process", source: e.into() })?;
    match failure {
        None => Ok(child),
        Some(e) => {
            let _ = waitpid(child, None);
            Err(Error::Exec { path: target.runtime.clone(), source: e })
        }
    }
}

/// Replaces the child by the real runtime. Returns only if that fails, or if the parent has died.
/// Allocates nothing: the child shares the heap of its parent, and may be killed at any point.
fn replace(target: &Target, program: &mut Program, signals: &Signals, parent: Pid) -> io::Error {
    if let Err(e) = set_pdeathsig(Signal::SIGKILL) {
        return e.into();
    }
    // If the parent died before `set_pdeathsig`, no signal is sent.
    if getppid() != parent {
        return io::ErrorKind::Interrupted.into();
    }
    program.set_listen_pid(parent, getpid());
    match signals.restore() {
        Ok(()) => target.execve(program),
        Err(e) => e.into(),
    }
}
