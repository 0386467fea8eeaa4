//! `fork`, and the disposition of SIGCHLD: calls that Rust cannot check.
//!
//! `spawn` and `signals` use these calls.
#![allow(unsafe_code)] // each block says why it is sound

use nix::{
    sys::signal::{SigHandler, Signal, signal},
    unistd::ForkResult,
};

/// Forks this process, as fork(2).
pub(crate) fn fork() -> nix::Result<ForkResult> {
    // SAFETY: this program never starts a thread, so that no thread can hold a lock that the
    // child would wait for.
    unsafe { nix::unistd::fork() }
}

/// Sets the disposition of SIGCHLD. Returns whether it was ignored before.
pub(crate) fn set_sigchld_ignored(ignored: bool) -> nix::Result<bool> {
    let handler = if ignored { SigHandler::SigIgn } else { SigHandler::SigDfl };
    // SAFETY: no handler function is installed.
    let before = unsafe { signal(Signal::SIGCHLD, handler) }?;
    Ok(matches!(before, SigHandler::SigIgn))
}
