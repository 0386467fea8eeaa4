//! The ptrace loop, which stops the program at each system call.

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

/// `PTRACE_EVENT_STOP`: `wait` returns it for a new traced thread and after an interrupt.
const EVENT_STOP: i32 = 128;

/// State of the trace.
struct Tracer<'a> {
    arguments: &'a Arguments,
    threads: Threads,
    /// Threads that are in a system call, and stop next when they leave it.
    in_system_call: HashSet<Pid>,
    log: File,
    /// Number of changes so far.
    count: usize,
}

/// Traces until the command or the process has ended; returns the exit code.
pub(crate) fn trace(arguments: &Arguments) -> i32 {
    if !points::SUPPORTED {
        eprintln!("crash-at: system calls of this architecture are not supported");
        return 2;
    }
    let log = File::create(&arguments.log).expect("the log is writable");
    let mut tracer = Tracer {
        arguments,
        threads: Threads::default(),
        in_system_call: HashSet::new(),
        log,
        count: 0,
    };
    let root = match &arguments.target {
        Target::Pid(pid) => {
            seize_all(Pid::from_raw(*pid));
            // Notifies the caller that the trace has started.
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

/// Traces all threads of a process. The kernel traces the threads that a traced thread creates.
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
            // `seize` fails if the thread has ended, or is traced already because its creator is.
            if ptrace::seize(task, options()).is_ok() {
                let _ = ptrace::interrupt(task);
            }
            seized.insert(task);
        }
    }
}

/// Starts the command in a shell that stops itself until `crash-at` traces it.
#[expect(clippy::zombie_processes, reason = "the ptrace loop reaps all processes")]
fn start(words: &[std::ffi::OsString]) -> Pid {
    let mut shell = Command::new("sh");
    shell.args(["-c", "kill -STOP $$; exec \"$@\"", "sh"]).args(words);
    let child = shell.spawn().expect("sh can be started");
    let pid = Pid::from_raw(child.id().try_into().expect("the id is a valid process id"));
    waitpid(pid, Some(WaitPidFlag::WUNTRACED)).expect("the child exists");
    if let Err(e) = ptrace::seize(pid, options()) {
        let _ = kill(pid, Signal::SIGKILL);
        eprintln!("crash-at: processes cannot be traced here: {e}");
        std::process::exit(2);
    }
    kill(pid, Signal::SIGCONT).expect("the child exists");
    pid
}

impl Tracer<'_> {
    /// Handles stops until the command, or else the last traced process, has ended.
    fn follow(&mut self, root: Option<Pid>) -> i32 {
        loop {
            let status = match waitpid(None, Some(WaitPidFlag::__WALL)) {
                Ok(status) => status,
                Err(Errno::EINTR) => continue,
                // No traced process is left.
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
                        self.in_system_call.remove(&pid);
                    }
                    self.threads.classify(self.arguments, pid, false);
                    resume(pid, None);
                }
                WaitStatus::Stopped(pid, signal) => resume(pid, Some(signal)),
                _ => {}
            }
        }
    }

    fn forget(&mut self, pid: Pid) {
        self.threads.forget(pid);
        self.in_system_call.remove(&pid);
    }

    /// Handles an execve: a thread that has executed another program is not traced any longer.
    fn executed(&mut self, pid: Pid) {
        let previous_victim = self.threads.victim(pid);
        let victim = self.threads.classify(self.arguments, pid, true);
        if previous_victim.is_some() && victim.is_none() {
            self.forget(pid);
            let _ = ptrace::detach(pid, None);
            return;
        }
        resume(pid, None);
    }

    /// Handles the entry or exit of a system call.
    fn syscall(&mut self, pid: Pid) {
        if self.in_system_call.insert(pid) {
            self.threads.classify(self.arguments, pid, false);
            self.enter(pid);
        } else {
            self.in_system_call.remove(&pid);
        }
        resume(pid, None);
    }

    /// Handles the entry of a system call: counts and logs the change, or kills the program before
    /// the change.
    fn enter(&mut self, pid: Pid) {
        let Some(victim) = self.threads.victim(pid) else { return };
        // The thread may have been killed meanwhile.
        let Ok((number, arguments)) = points::call(pid) else { return };
        let Some(change) = points::change(pid, number, arguments) else { return };
        self.count += 1;
        if self.count != self.arguments.at {
            return self.write_log(&change);
        }
        // Log before the kill: a test that waits for the end of the victim then reads the log.
        self.write_log(&format!("KILLED {change}"));
        // The thread is stopped at the entry, so the system call is not executed.
        let _ = kill(victim, Signal::SIGKILL);
        if let Some((program, text)) = &self.arguments.also {
            for pid in processes::find(program, text) {
                let _ = kill(pid, Signal::SIGKILL);
            }
        }
    }

    fn write_log(&mut self, line: &str) {
        writeln!(self.log, "{line}").expect("the log is writable");
    }
}

/// Resumes a thread until its next system call. The thread may have ended meanwhile.
fn resume(pid: Pid, signal: Option<Signal>) {
    let _ = ptrace::syscall(pid, signal);
}
