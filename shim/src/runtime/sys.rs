//! Unsafe calls of `spawn` and `signals`: the start of a child, execve(2), the disposition of
//! SIGCHLD, and signals of any number.
#![allow(unsafe_code)] // each block says why it is sound

use nix::{
    errno::Errno,
    libc::{self, c_char},
    sched::{CloneFlags, clone},
    sys::signal::{SigHandler, Signal, signal},
    unistd::{Pid, getpid},
};
use std::{
    ffi::{CStr, CString},
    io::Write,
    iter::once,
    ptr,
};

const LISTEN_PID: &str = "LISTEN_PID";

/// Size of `LISTEN_PID=` with the longest pid and the final NUL.
const LISTEN_PID_SIZE: usize = LISTEN_PID.len() + "=2147483647".len() + 1;

/// Arguments and environment of a program as execve(2) takes them, so that a child has nothing to
/// allocate.
pub(crate) struct Program {
    /// Pointers, with NULL at the end. `argv[0]` is the path.
    argv: Vec<*const c_char>,
    /// Pointers, with NULL at the end.
    environment: Vec<*const c_char>,
    listen_pid: [u8; LISTEN_PID_SIZE],
    /// Owner of the strings of `argv`. The content of a `CString` stays in place when the `CString`
    /// moves.
    _argv: Vec<CString>,
}

impl Program {
    /// Stores the strings of a call. `argv` begins with the path.
    pub(crate) fn new(argv: Vec<CString>, environment: &[&'static CStr]) -> Self {
        let end = once(ptr::null());
        Self {
            argv: argv.iter().map(|string| string.as_ptr()).chain(end.clone()).collect(),
            environment: environment.iter().map(|entry| entry.as_ptr()).chain(end).collect(),
            listen_pid: [0; LISTEN_PID_SIZE],
            _argv: argv,
        }
    }

    /// Replaces the pid of the parent in `LISTEN_PID` by the pid of the child: sd_listen_fds(3)
    /// accepts descriptors only in the process with this pid. Allocates nothing.
    pub(crate) fn set_listen_pid(&mut self, parent: Pid, child: Pid) {
        let mut before = [0; LISTEN_PID_SIZE];
        // The arrays have space for any pid, so these writes cannot fail.
        let _ = write!(&mut before[..], "{LISTEN_PID}={parent}\0");
        let _ = write!(&mut self.listen_pid[..], "{LISTEN_PID}={child}\0");
        for pointer in self.environment.iter_mut().filter(|pointer| !pointer.is_null()) {
            // SAFETY: the pointers before the NULL are those of `CStr`s that live as long as the
            // process.
            let entry = unsafe { CStr::from_ptr(*pointer) };
            if before.starts_with(entry.to_bytes_with_nul()) {
                *pointer = self.listen_pid.as_ptr().cast();
            }
        }
    }

    /// Calls execve(2). Returns only if that fails.
    pub(crate) fn execve(&self) -> Errno {
        // SAFETY: both arrays end with NULL. Their other pointers lead to strings with a final NUL:
        // in fields of `self`, of which no field has moved since `set_listen_pid`, because the
        // caller borrows `self` in the child from then on, or of the environment of this process.
        unsafe { libc::execve(self.argv[0], self.argv.as_ptr(), self.environment.as_ptr()) };
        Errno::last()
    }
}

/// Size of the stack of a child until it executes a program. Pages that are not used cost nothing.
const STACK: usize = 256 << 10;

/// Runs `run`, which executes another program, in a child on a stack of its own. Returns when the
/// child has executed it, or when `run` has returned and the child has exited.
///
/// Like vfork(2), this call copies no memory: this process reads the values that `run` writes.
/// fork(2) would copy the tables of all mapped memory, and each page that either process then
/// writes.
pub(crate) fn start(mut run: impl FnMut()) -> nix::Result<Pid> {
    let mut stack = vec![0; STACK];
    let flags = CloneFlags::CLONE_VM | CloneFlags::CLONE_VFORK;
    let run = Box::new(|| {
        run();
        127
    });
    // SAFETY: this program never starts a thread, and this process waits until the child has
    // executed a program or has exited, so that only one of the two uses the memory at a time. The
    // child may be killed at any point; `run` allocates nothing, so the heap stays intact. The
    // stack is not freed before the wait ends. When `run` returns, the child exits without exit
    // handlers.
    unsafe { clone(run, &mut stack, flags, Some(Signal::SIGCHLD as i32)) }
}

/// Sends a signal, which may be a real-time signal, to this process.
pub(crate) fn signal_oneself(signal: i32) {
    // SAFETY: the call gets no pointers, and any number is valid.
    unsafe { libc::kill(getpid().as_raw(), signal) };
}

/// Sets the disposition of SIGCHLD. Returns whether it was ignored before.
pub(crate) fn set_sigchld_ignored(ignored: bool) -> nix::Result<bool> {
    let handler = if ignored { SigHandler::SigIgn } else { SigHandler::SigDfl };
    // SAFETY: no handler function is installed.
    let before = unsafe { signal(Signal::SIGCHLD, handler) }?;
    Ok(matches!(before, SigHandler::SigIgn))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_pid_of_the_wrapper_is_replaced_by_that_of_the_runtime() {
        let rewritten = |entries: &[&'static CStr]| {
            let mut program = Program::new(vec![c"/runc".to_owned()], entries);
            program.set_listen_pid(Pid::from_raw(10), Pid::from_raw(i32::MAX));
            let pointers = program.environment.iter().take_while(|pointer| !pointer.is_null());
            // SAFETY: the pointers lead to strings of `program`, which is not dropped or moved.
            let strings = pointers.map(|pointer| unsafe { CStr::from_ptr(*pointer) });
            strings.map(|s| s.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            rewritten(&[c"A", c"LISTEN_PID=10", c"LISTEN_FDS=2"]),
            ["A", "LISTEN_PID=2147483647", "LISTEN_FDS=2"]
        );
        assert_eq!(
            rewritten(&[c"LISTEN_PID=1", c"XLISTEN_PID=10", c"LISTEN_PID=100", c""]),
            ["LISTEN_PID=1", "XLISTEN_PID=10", "LISTEN_PID=100", ""]
        );
    }
}
