//! The few calls that Rust cannot check: entry, fork, the disposition of SIGCHLD. The only unsafe
//! code of this program.
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
    // SAFETY: the C library passes `argc` pointers to NUL-terminated strings and a NULL-terminated
    // array of such pointers, all valid as long as the process lives.
    let argv = unsafe { copy(argv, usize::try_from(argc).unwrap_or(0)) };
    // SAFETY: as above.
    let envp = unsafe { copy(envp, usize::MAX) };
    crate::run(&crate::call::Call::new(argv, envp))
}

/// Copies the strings of an array that ends at `most` or at NULL, whichever is first.
///
/// # Safety
/// `array` points to that many valid pointers to NUL-terminated strings (the terminating NULL
/// included).
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
    // SAFETY: this program never starts a thread, so that no lock can be held by one that the child
    // lacks.
    unsafe { nix::unistd::fork() }
}

/// Sets the disposition of SIGCHLD and tells whether it was ignored before.
pub(crate) fn set_sigchld_ignored(ignored: bool) -> nix::Result<bool> {
    let handler = if ignored { SigHandler::SigIgn } else { SigHandler::SigDfl };
    // SAFETY: no handler function is installed.
    let before = unsafe { signal(Signal::SIGCHLD, handler) }?;
    Ok(matches!(before, SigHandler::SigIgn))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::unix::ffi::OsStrExt, ptr};

    #[test]
    fn strings_of_the_c_library() {
        let array =
            [c"runc".as_ptr(), c"".as_ptr(), c"\xff=1".as_ptr(), ptr::null(), c"behind".as_ptr()];
        let strings = |array: &[_], most| {
            // SAFETY: all its pointers are to literals, and `most` is not beyond its end, or its
            // NULL is before that.
            unsafe { copy(array.as_ptr(), most) }
        };
        let bytes = |most| -> Vec<Vec<u8>> {
            strings(&array, most).iter().map(|string| string.as_bytes().to_vec()).collect()
        };
        assert_eq!(bytes(usize::MAX), [&b"runc"[..], b"", b"\xff=1"]);
        assert_eq!(bytes(2), [&b"runc"[..], b""]);
        assert!(bytes(0).is_empty());
        // SAFETY: nothing is read.
        let none = unsafe { copy(ptr::null(), 1) };
        assert!(none.is_empty(), "execve without any argv, by a kernel before 5.18");
    }
}
