//! The loop that follows the program from one system call to the next.

use crate::{
    arguments::{Arguments, Target},
    points,
    processes::{self, Threads},
};
use nix::{
    errno::Errno,
    libc,
    sys::{
        ptrace::{self, Options},
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use std::{
    collections::HashSet,
    fs::{self, File},
    io::Write,
    process::Command,
};

/// Status that `wait` returns for a thread that is traced from its start, or was requested to stop.
const EVENT_STOP: i32 = 128;

struct Tracer<'a> {
    arguments: &'a Arguments,
    threads: Threads,
    /// Within a system call: the next stop is its end.
    within: HashSet<Pid>,
    log: File,
    count: usize,
}

/// Traces until the command, or the process, has ended; returns the exit code.
pub(crate) fn trace(arguments: &Arguments) -> i32 {
    if !points::ARE_KNOWN {
        eprintln!("crash-at: system calls of this architecture are not known");
        return 2;
    }
    let log = File::create(&arguments.log).expect("the log can be written");
    let mut tracer =
        Tracer { arguments, threads: Threads::default(), within: HashSet::new(), log, count: 0 };
    let root = match &arguments.target {
        Target::Pid(pid) => {
            seize_all(Pid::from_raw(*pid));
            // The caller may go on.
            println!("traced");
            None
        }
        Target::Command(words) => Some(start(words)),
    };
    tracer.follow(root)
}

fn options() -> Options {
    Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEEXEC
}

/// All threads; new ones come by themselves once their maker is traced.
fn seize_all(pid: Pid) {
    let mut seized = HashSet::new();
    loop {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let tasks =
            tasks.filter_map(|task| task.file_name().to_str()?.parse().ok().map(Pid::from_raw));
        let new: Vec<_> = tasks.filter(|task| !seized.contains(task)).collect();
        if new.is_empty() {
            return;
        }
        for task in new {
            // Refused: it has ended, or its maker is traced.
            if ptrace::seize(task, options()).is_ok() {
                let _ = ptrace::interrupt(task);
            }
            seized.insert(task);
        }
    }
}

/// Starts a command that waits for us before it does anything.
#[expect(clippy::zombie_processes, reason = "the loop waits for all")]
fn start(words: &[std::ffi::OsString]) -> Pid {
    let mut shell = Command::new("sh");
    shell.args(["-c", "kill -STOP $$; exec \"$@\"", "sh"]).args(words);
    let child = shell.spawn().expect("there is a shell");
    let pid = Pid::from_raw(child.id().try_into().expect("a process id"));
    waitpid(pid, Some(WaitPidFlag::WUNTRACED)).expect("our child");
    if let Err(e) = ptrace::seize(pid, options()) {
        let _ = kill(pid, Signal::SIGKILL);
        eprintln!("crash-at: processes cannot be traced here: {e}");
        std::process::exit(2);
    }
    kill(pid, Signal::SIGCONT).expect("our child");
    pid
}

impl Tracer<'_> {
    fn follow(&mut self, root: Option<Pid>) -> i32 {
        loop {
            let status = match waitpid(None, Some(WaitPidFlag::__WALL)) {
                Ok(status) => status,
                Err(Errno::EINTR) => continue,
                // Nobody is left.
                Err(_) => return 0,
            };
            match status {
                WaitStatus::Exited(pid, code) => {
                    self.forget(pid);
                    if root == Some(pid) {
                        return code;
                    }
                }
                WaitStatus::Signaled(pid, signal, _) => {
                    self.forget(pid);
                    if root == Some(pid) {
                        return 128 + signal as i32;
                    }
                }
                WaitStatus::PtraceSyscall(pid) => self.syscall(pid),
                WaitStatus::PtraceEvent(pid, _, libc::PTRACE_EVENT_EXEC) => self.executed(pid),
                WaitStatus::PtraceEvent(pid, _, event) => {
                    if event == EVENT_STOP {
                        self.within.remove(&pid);
                    }
                    self.threads.look(self.arguments, pid, false);
                    go_on(pid, None);
                }
                WaitStatus::Stopped(pid, signal) => go_on(pid, Some(signal)),
                _ => {}
            }
        }
    }

    fn forget(&mut self, pid: Pid) {
        self.threads.forget(pid);
        self.within.remove(&pid);
    }

    fn executed(&mut self, pid: Pid) {
        let before = self.threads.victim(pid);
        let after = self.threads.look(self.arguments, pid, true);
        if before.is_some() && after.is_none() {
            self.forget(pid);
            let _ = ptrace::detach(pid, None);
            return;
        }
        go_on(pid, None);
    }

    fn syscall(&mut self, pid: Pid) {
        if self.within.insert(pid) {
            self.threads.look(self.arguments, pid, false);
            self.begins(pid);
        } else {
            self.within.remove(&pid);
        }
        go_on(pid, None);
    }

    fn begins(&mut self, pid: Pid) {
        let Some(victim) = self.threads.victim(pid) else { return };
        // It may have been killed by others.
        let Ok((number, arguments)) = points::call(pid) else { return };
        let Some(reported) = points::change(pid, number, arguments) else { return };
        self.count += 1;
        if self.count != self.arguments.at {
            return self.tell(&reported);
        }
        // First, so that the reason is known before the end.
        self.tell(&format!("KILLED {reported}"));
        // Stopped as it is, it does not make the call.
        let _ = kill(victim, Signal::SIGKILL);
        if let Some((program, mark)) = &self.arguments.also {
            for pid in processes::of(program, mark) {
                let _ = kill(pid, Signal::SIGKILL);
            }
        }
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.log, "{line}").expect("the log can be written");
    }
}

/// It may be gone.
fn go_on(pid: Pid, signal: Option<Signal>) {
    let _ = ptrace::syscall(pid, signal);
}
