//! Counts the instructions of the wrapper from its start until it executes the runtime, and the
//! blocks of code that they are in, by single steps with ptrace: callgrind reports nothing of a
//! process that executes another program.

use nix::{
    libc,
    sys::{
        ptrace::{self, Options},
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use nri_files::published_file;
use nri_locate::{Environment, LoadedConfig};
use std::{
    collections::BTreeSet,
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

/// What one call of the wrapper has executed.
pub(crate) struct Executed {
    pub(crate) instructions: u64,
    /// Blocks of code that the kernel maps at their first use, each with one page fault.
    pub(crate) blocks: u64,
}

/// Size of a block: 64 KiB, the default of `fault_around_bytes`.
const BLOCK: u64 = 64 << 10;

/// Returns what the wrapper's verb `state` executes with a configuration that names the runtime.
pub(crate) fn count() -> Executed {
    // Paths of the same length on each machine: the wrapper reads them byte by byte.
    let dir = tempfile::Builder::new().prefix("nri-").tempdir_in("/tmp").expect("/tmp is writable");
    let (config, program) =
        (dir.path().join("config.toml"), dir.path().join("nri-container-runtime"));
    let state_dir = dir.path().join("s");
    let text = format!("state_dir = {state_dir:?}\n\n[runtime]\npath = \"/bin/true\"\n");
    fs::write(&config, text).expect("/tmp is writable");
    // As `nrid` does; without root, the wrapper reads the file.
    let environment = Environment::default();
    let loaded = LoadedConfig::read(Some(&config), &environment, |_| true);
    let _ = loaded.call_settings(&environment).publish(&config);
    fs::copy(wrapper(), &program).expect("/tmp is writable");
    let mut shell = Command::new("/bin/sh");
    // setarch -R: without randomized addresses, the dynamic loader executes the same instructions
    // in each run.
    shell.args(["-c", "kill -STOP $$; exec setarch -R \"$@\"", "sh"]).arg(program);
    shell.args(["--root", "/run/bench", "state", "c"]).env_clear().current_dir("/");
    shell.env("PATH", "/usr/bin:/bin").env("NRI_CONTAINER_RUNTIME_CONFIG", &config);
    shell.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = shell.spawn().expect("sh can be started");
    let pid = Pid::from_raw(child.id().try_into().expect("the id of a process has 31 bits"));
    waitpid(pid, Some(WaitPidFlag::WUNTRACED)).expect("the child exists");
    ptrace::seize(pid, Options::PTRACE_O_TRACEEXEC).expect("processes can be traced here");
    kill(pid, Signal::SIGCONT).expect("the child exists");
    run_until_exec(pid); // setarch
    ptrace::cont(pid, None).expect("the child is stopped");
    run_until_exec(pid); // the wrapper
    ptrace::step(pid, None).expect("the child is stopped");
    let executed = step_until_exec(pid); // the runtime
    ptrace::detach(pid, None).expect("the child is stopped");
    let status = child.wait().expect("the child exists");
    assert!(status.success(), "the wrapper has not executed the runtime: {status}");
    let _ = fs::remove_file(published_file(&config));
    executed
}

/// Path of the wrapper, beside this program.
fn wrapper() -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    let wrapper = program.with_file_name("nri-container-runtime");
    assert!(wrapper.is_file(), "{} is missing: make release", wrapper.display());
    wrapper
}

/// Lets the child run until it has executed the next program.
fn run_until_exec(pid: Pid) {
    let mut signal = None;
    while !is_exec(pid, &mut signal) {
        ptrace::cont(pid, signal.take()).expect("the child is stopped");
    }
}

/// Lets the child run until it has executed the next program, and counts what it executes.
fn step_until_exec(pid: Pid) -> Executed {
    let (mut instructions, mut signal) = (0, None);
    let mut blocks = BTreeSet::new();
    while !is_exec(pid, &mut signal) {
        // ptrace sends this signal at the end of each step; the child must not receive it.
        if signal == Some(Signal::SIGTRAP) {
            signal = None;
            instructions += 1;
        }
        let registers = ptrace::getregs(pid).expect("the child is stopped");
        blocks.insert(registers.rip / BLOCK);
        ptrace::step(pid, signal.take()).expect("the child is stopped");
    }
    Executed { instructions, blocks: blocks.len() as u64 }
}

/// Waits until the child stops; returns whether it has executed a program. If the child has stopped
/// because of a signal instead, sets `signal`.
fn is_exec(pid: Pid, signal: &mut Option<Signal>) -> bool {
    match waitpid(pid, None).expect("the child exists") {
        WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_EXEC) => return true,
        WaitStatus::PtraceEvent(..) => {}
        WaitStatus::Stopped(_, received) => *signal = Some(received),
        other => panic!("the wrapper has not executed the runtime: {other:?}"),
    }
    false
}
