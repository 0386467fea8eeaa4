//! Forwarding of signals while the real runtime runs as a child: a signal to this process reaches
//! the child, as if the child had replaced this process.
//!
//! The child is in the same process group, so that a terminal's Ctrl-C reaches both processes; the
//! kernel marks such signals (`SI_KERNEL`), and these are not forwarded. Signals that processes
//! send (`SI_USER` and the like) are forwarded. A signal to the whole group (`kill -TERM -PGID`)
//! cannot be distinguished from a signal to this process alone, so the child may receive it twice.
//! Without forwarding, a runtime could survive a signal that was sent to end it.
//!
//! signalfd is used instead of handlers: it reports the sender, no code runs in a signal handler,
//! and no unsafe code is needed. Real-time signals are not blocked: no runtime uses them, and their
//! default action ends this process and thereby the child.

use super::sys;
use crate::error::Error;
use nix::sys::{
    signal::{SigSet, SigmaskHow, Signal, kill},
    signalfd::{SfdFlags, SignalFd},
};
use nix::unistd::{Pid, getpid};
use nri_control::Exit;
use rustix::{
    io::Errno,
    process::{WaitOptions, waitpid},
};

/// `si_code` of signals that the kernel itself sends.
const SI_KERNEL: i32 = 0x80;

/// Signals that the kernel sends for faults of this program. They are not blocked: if a fault
/// occurs while its signal is blocked, the result is undefined (sigprocmask(2)).
const FAULTS: [Signal; 6] = [
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGTRAP,
    Signal::SIGSYS,
];

/// Signal mask and SIGCHLD disposition of the caller, and the descriptor that receives signals.
#[derive(Debug)]
pub(crate) struct Signals {
    mask: SigSet,
    sigchld_ignored: bool,
    signalfd: SignalFd,
}

impl Signals {
    /// Blocks all signals except faults. If the caller ignores SIGCHLD, resets its disposition to
    /// the default: otherwise the child's exit code would be lost.
    pub(crate) fn block() -> Result<Self, Error> {
        let failed = |e: nix::Error| Error::System { action: "block signals", source: e.into() };
        let blocked: SigSet =
            Signal::iterator().filter(|signal| !FAULTS.contains(signal)).collect();
        let sigchld_ignored = sys::set_sigchld_ignored(false).map_err(failed)?;
        let mask = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK).map_err(failed)?;
        let signalfd = SignalFd::with_flags(&blocked, SfdFlags::SFD_CLOEXEC).map_err(failed)?;
        Ok(Self { mask, sigchld_ignored, signalfd })
    }

    /// Restores mask and disposition: in the child before `execve`, in this process after the
    /// child's exit.
    pub(crate) fn restore(&self) -> nix::Result<()> {
        if self.sigchld_ignored {
            sys::set_sigchld_ignored(true)?;
        }
        self.mask.thread_set_mask()
    }

    /// Forwards signals until the child exits.
    pub(crate) fn wait(&self, child: Pid) -> Result<Exit, Error> {
        loop {
            // SIGCHLD is pending even if the child exited before this loop.
            let info = match self.signalfd.read_signal() {
                Ok(Some(info)) => info,
                Ok(None) | Err(nix::Error::EINTR) => continue,
                Err(e) => {
                    return Err(Error::System { action: "wait for signals", source: e.into() });
                }
            };
            let Ok(signal) = Signal::try_from(info.ssi_signo as i32) else { continue };
            if signal == Signal::SIGCHLD {
                if let Some(exit) = exit_of(child)? {
                    return Ok(exit);
                }
            } else if is_forwarded(info.ssi_code, info.ssi_pid, getpid()) {
                // The child may have exited.
                let _ = kill(child, signal);
            }
        }
    }
}

fn is_forwarded(code: i32, sender: u32, us: Pid) -> bool {
    code != SI_KERNEL && i64::from(sender) != i64::from(us.as_raw())
}

/// Returns how the child has exited; `None` while it runs. If the child was stopped, this process
/// stops too, as job control of a shell expects, and continues the child afterwards.
fn exit_of(child: Pid) -> Result<Option<Exit>, Error> {
    loop {
        // Not by nix, which has no real-time signals.
        let pid = rustix::process::Pid::from_raw(child.as_raw());
        let status = match waitpid(pid, WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(Some((_, status))) => status,
            Ok(None) => return Ok(None),
            Err(Errno::INTR) => continue,
            Err(e) => {
                return Err(Error::System {
                    action: "wait for the real runtime",
                    source: e.into(),
                });
            }
        };
        if status.stopped() {
            let _ = kill(getpid(), Signal::SIGSTOP);
            let _ = kill(child, Signal::SIGCONT);
            return Ok(None);
        }
        let code = status.exit_status().map(Exit::Code);
        return Ok(code.or_else(|| status.terminating_signal().map(Exit::Signal)));
    }
}

/// Ends this process by `signal`. Returns if that is not possible because the caller ignores the
/// signal.
pub(crate) fn die_by(signal: i32) {
    // The child has dumped core already; a dump of this process would be misleading.
    let no_dump = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, no_dump);
    sys::signal_oneself(signal);
    // A real-time signal is not blocked.
    if let Ok(signal) = Signal::try_from(signal) {
        let mut only = SigSet::empty();
        only.add(signal);
        let _ = only.thread_unblock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_of_processes_are_forwarded_and_those_of_the_terminal_are_not() {
        const SI_USER: i32 = 0;
        const SI_QUEUE: i32 = -1;
        let us = Pid::from_raw(100);
        assert!(is_forwarded(SI_USER, 7, us));
        assert!(is_forwarded(SI_QUEUE, 7, us));
        let why = "a sender outside of this pid namespace has the pid 0";
        assert!(is_forwarded(SI_USER, 0, us), "{why}");
        assert!(!is_forwarded(SI_KERNEL, 0, us), "a terminal signals the whole group");
        assert!(!is_forwarded(SI_USER, 100, us), "SIGPIPE of this process is not for the child");
    }
}
