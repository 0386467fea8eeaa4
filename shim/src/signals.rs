//! Signals while the real runtime runs as our child: it gets what it would have got in our place,
//! and once.
//!
//! The child is in our process group, so that a terminal's Ctrl-C reaches both of us; the kernel
//! marks such signals (`SI_KERNEL`), and these are not passed on. What a process sent (`SI_USER`
//! and the like) is. A process that signals the whole group (`kill -TERM -PGID`) cannot be told
//! from one that signals us alone; the child may then see that signal twice, which is the lesser
//! harm: not passing it on could leave a runtime running that was told to end.
//!
//! Why signalfd, and not handlers: the sender is known, no code runs in a signal handler, and
//! nothing needs unsafe code. Real-time signals are left alone: no runtime gives them a meaning,
//! and their default ends us and thereby the child.

use crate::{Error, sys};
use nix::sys::{
    signal::{SigSet, SigmaskHow, Signal, kill},
    signalfd::{SfdFlags, SignalFd},
    wait::{WaitPidFlag, WaitStatus, waitpid},
};
use nix::unistd::{Pid, getpid};
use nri_control::Exit;

/// `si_code` of what the kernel sends by itself.
const SI_KERNEL: i32 = 0x80;

/// Raised by what a program does itself; blocking them would only turn a crash into a loop.
const FAULTS: [Signal; 6] = [
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGTRAP,
    Signal::SIGSYS,
];

/// How signals were before, and the descriptor where they arrive now.
#[derive(Debug)]
pub(crate) struct Signals {
    mask: SigSet,
    child_ignored: bool,
    arriving: SignalFd,
}

impl Signals {
    /// Holds all signals back from now on. SIGCHLD must not be ignored, as some callers leave it:
    /// the exit code would be lost.
    pub(crate) fn hold() -> Result<Self, Error> {
        let failed = |e: nix::Error| Error::System(e.into(), "hold signals");
        let held: SigSet = Signal::iterator().filter(|signal| !FAULTS.contains(signal)).collect();
        let child_ignored = sys::set_sigchld_ignored(false).map_err(failed)?;
        let mask = held.thread_swap_mask(SigmaskHow::SIG_BLOCK).map_err(failed)?;
        let arriving = SignalFd::with_flags(&held, SfdFlags::SFD_CLOEXEC).map_err(failed)?;
        Ok(Self { mask, child_ignored, arriving })
    }

    /// Puts all back as it was: in the child before `execve`, and here when the child has ended.
    pub(crate) fn restore(&self) -> nix::Result<()> {
        if self.child_ignored {
            sys::set_sigchld_ignored(true)?;
        }
        self.mask.thread_set_mask()
    }

    /// Passes signals on until the child ends.
    pub(crate) fn wait(&self, child: Pid) -> Result<Exit, Error> {
        loop {
            // A child that ended before this loop has left a SIGCHLD too.
            let info = match self.arriving.read_signal() {
                Ok(Some(info)) => info,
                Ok(None) | Err(nix::Error::EINTR) => continue,
                Err(e) => return Err(Error::System(e.into(), "wait for signals")),
            };
            let Ok(signal) = Signal::try_from(info.ssi_signo as i32) else { continue };
            if signal == Signal::SIGCHLD {
                if let Some(exit) = look(child)? {
                    return Ok(exit);
                }
            } else if is_passed_on(info.ssi_code, info.ssi_pid, getpid()) {
                // It may be gone by now.
                let _ = kill(child, signal);
            }
        }
    }
}

fn is_passed_on(code: i32, sender: u32, us: Pid) -> bool {
    code != SI_KERNEL && i64::from(sender) != i64::from(us.as_raw())
}

/// How the child ended, if it did. One that was stopped stops us, as a shell's job control expects;
/// and we continue it.
fn look(child: Pid) -> Result<Option<Exit>, Error> {
    loop {
        match waitpid(child, Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)) {
            Ok(WaitStatus::Exited(_, code)) => return Ok(Some(Exit::Code(code))),
            Ok(WaitStatus::Signaled(_, signal, _)) => return Ok(Some(Exit::Signal(signal as i32))),
            Ok(WaitStatus::Stopped(..)) => {
                let _ = kill(getpid(), Signal::SIGSTOP);
                let _ = kill(child, Signal::SIGCONT);
                return Ok(None);
            }
            Ok(_) => return Ok(None),
            Err(nix::Error::EINTR) => {}
            Err(e) => return Err(Error::System(e.into(), "wait for the real runtime")),
        }
    }
}

/// Ends this process as `signal` would. Returns where the signal cannot do that (it was ignored by
/// our caller).
pub(crate) fn die_by(signal: i32) {
    let Ok(signal) = Signal::try_from(signal) else { return };
    // The child has left its core dump already; ours would be misleading.
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    let mut only = SigSet::empty();
    only.add(signal);
    let _ = kill(getpid(), signal);
    let _ = only.thread_unblock();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gets_what() {
        const SI_USER: i32 = 0;
        const SI_QUEUE: i32 = -1;
        let us = Pid::from_raw(100);
        assert!(is_passed_on(SI_USER, 7, us));
        assert!(is_passed_on(SI_QUEUE, 7, us));
        assert!(is_passed_on(SI_USER, 0, us), "a sender outside of our pid namespace is 0");
        assert!(!is_passed_on(SI_KERNEL, 0, us), "a terminal signals the group");
        assert!(!is_passed_on(SI_USER, 100, us), "our own SIGPIPE");
    }
}
