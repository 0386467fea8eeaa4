//! Unsafe calls of `spawn`, `signals` and `answers`: the start of children, execve(2), the
//! disposition of SIGCHLD, and signals of any number.
#![allow(unsafe_code)] // each block says why it is sound

use nix::{
    errno::Errno,
    libc::{self, c_char},
    sched::{CloneFlags, clone},
    sys::{
        signal::{SigHandler, Signal, kill, signal},
        wait::{WaitPidFlag, waitpid},
    },
    unistd::{Pid, getpid},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    pipe::{PipeFlags, pipe_with},
    stdio::dup2_stdin,
};
use std::{
    ffi::{CStr, CString},
    io::Write,
    iter::once,
    ptr,
    time::{Duration, Instant},
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

/// Runs `run` in a child, and returns whether it has ended within `limit`, which is not certain if
/// it waits for a file system. Such a child stays behind until the file system answers, and holds
/// nothing of the caller meanwhile, such as a pipe that an engine reads to its end. If no child can
/// be started, returns `true`.
pub(crate) fn ends_within(limit: Duration, mut run: impl FnMut()) -> bool {
    let Ok((ended, running)) = pipe_with(PipeFlags::CLOEXEC) else { return true };
    let mut stack = vec![0; STACK];
    let child = Box::new(|| {
        if dup2_stdin(&running).is_ok() {
            close_all_but_stdin();
            run();
        }
        0
    });
    // SAFETY: this program never starts a thread, and the child has a copy of its memory, so that
    // it may do what this process may. When `child` returns, the child exits without exit handlers.
    // No signal tells this process, or the runtime that it becomes, of the end of the child.
    let Ok(child) = (unsafe { clone(child, &mut stack, CloneFlags::empty(), None) }) else {
        return true;
    };
    drop(running);
    let deadline = Instant::now() + limit;
    let has_ended = loop {
        let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).ok();
        // The end of the child closes the other end of the pipe.
        match poll(&mut [PollFd::new(&ended, PollFlags::IN)], left.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            ready => break ready.is_ok_and(|count| count > 0),
        }
    };
    if has_ended {
        let _ = waitpid(child, Some(WaitPidFlag::__WALL));
    } else {
        let _ = kill(child, Signal::SIGKILL);
    }
    has_ended
}

/// Closes all descriptors but stdin.
fn close_all_but_stdin() {
    // SAFETY: the caller, a child of `ends_within`, uses none of the descriptors afterwards.
    unsafe {
        if libc::syscall(libc::SYS_close_range, 1, libc::c_uint::MAX, 0) == 0 {
            return;
        }
        // Before Linux 5.9: engines pass few descriptors.
        for fd in 1..1024 {
            libc::close(fd);
        }
    }
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
    fn a_child_that_does_not_end_in_time_is_left_behind() {
        let limit = Duration::from_secs(60);
        assert!(ends_within(limit, || ()));
        let hang = || std::thread::sleep(limit);
        assert!(!ends_within(Duration::from_millis(50), hang));
    }

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
