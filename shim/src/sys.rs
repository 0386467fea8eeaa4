//! The few calls that Rust cannot check: entry, fork, the disposition of SIGCHLD. The only unsafe code of this program.
//!
//! Deliberately nothing else: what these calls are for is decided in `main`, `spawn` and `signals`.
#![allow(unsafe_code)] // each block says why it is sound

use nix::{
    sys::signal::{SigHandler, Signal, signal},
    unistd::ForkResult,
};

/// The C library calls this directly, see the crate's first comment.
#[cfg(not(test))]
#[unsafe(no_mangle)]
extern "C" fn main(
    argc: std::ffi::c_int,
    argv: *const *const std::ffi::c_char,
    envp: *const *const std::ffi::c_char,
) -> std::ffi::c_int {
    // SAFETY: the C library passes `argc` pointers to NUL-terminated strings and a NULL-terminated array of such
    // pointers, all valid as long as the process lives.
    let (argv, envp) = unsafe { (copy(argv, usize::try_from(argc).unwrap_or(0)), copy(envp, usize::MAX)) };
    crate::run(&crate::call::Call::new(argv, envp))
}

/// Copies the strings of an array that ends at `most` or at NULL, whichever is first.
///
/// # Safety
/// `array` points to that many valid pointers to NUL-terminated strings (the terminating NULL included).
#[cfg(not(test))]
unsafe fn copy(array: *const *const std::ffi::c_char, most: usize) -> Vec<std::ffi::OsString> {
    use std::os::unix::ffi::OsStringExt;
    let mut strings = Vec::new();
    if array.is_null() {
        return strings;
    }
    for i in 0..most {
        // SAFETY: `i` is not beyond the end, which is `most` or the NULL where this loop ends.
        let string = unsafe { *array.add(i) };
        if string.is_null() {
            break;
        }
        // SAFETY: the caller vouches for the string.
        let bytes = unsafe { std::ffi::CStr::from_ptr(string) }.to_bytes().to_vec();
        strings.push(std::ffi::OsString::from_vec(bytes));
    }
    strings
}

/// `fork`
pub(crate) fn fork() -> nix::Result<ForkResult> {
    // SAFETY: this program never starts a thread, so that no lock can be held by one that the child lacks.
    unsafe { nix::unistd::fork() }
}

/// Sets the disposition of SIGCHLD and tells whether it was ignored before.
pub(crate) fn set_sigchld_ignored(ignored: bool) -> nix::Result<bool> {
    let handler = if ignored { SigHandler::SigIgn } else { SigHandler::SigDfl };
    // SAFETY: no handler function is installed.
    let before = unsafe { signal(Signal::SIGCHLD, handler) }?;
    Ok(matches!(before, SigHandler::SigIgn))
}
