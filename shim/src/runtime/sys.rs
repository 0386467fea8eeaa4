//! Start of a child, and the disposition of SIGCHLD: calls that Rust cannot check.
//!
//! `spawn` and `signals` use these calls.
#![allow(unsafe_code)] // each block says why it is sound

use nix::{
    sched::{CloneFlags, clone},
    sys::signal::{SigHandler, Signal, signal},
    unistd::Pid,
};

/// Size of the stack of a child until it executes a program. Pages that are not used cost nothing.
const STACK: usize = 256 << 10;

/// Runs `run`, which executes another program, in a child on a stack of its own. Returns when the
/// child has executed it, or when `run` has returned and the child has exited.
///
/// As vfork(2), this copies no memory: what `run` writes, this process reads. fork(2) would copy
/// the tables of all mapped memory, and each page that either process then writes.
pub(crate) fn start(mut run: impl FnMut()) -> nix::Result<Pid> {
    let mut stack = vec![0; STACK];
    let flags = CloneFlags::CLONE_VM | CloneFlags::CLONE_VFORK;
    let run = Box::new(|| {
        run();
        127
    });
    // SAFETY: this program never starts a thread, and this process stands still until the child has
    // executed or exited, so that one of them at a time uses the memory, as if they were one. The
    // stack is not freed before. The end of `run` ends the child without code that runs at an exit.
    unsafe { clone(run, &mut stack, flags, Some(Signal::SIGCHLD as i32)) }
}

/// Sets the disposition of SIGCHLD. Returns whether it was ignored before.
pub(crate) fn set_sigchld_ignored(ignored: bool) -> nix::Result<bool> {
    let handler = if ignored { SigHandler::SigIgn } else { SigHandler::SigDfl };
    // SAFETY: no handler function is installed.
    let before = unsafe { signal(Signal::SIGCHLD, handler) }?;
    Ok(matches!(before, SigHandler::SigIgn))
}
