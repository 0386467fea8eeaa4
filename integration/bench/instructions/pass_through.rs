//! Counts the instructions of the wrapper from its start until it executes the runtime, by single
//! steps with ptrace: callgrind reports nothing of a process that executes another program.

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
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

/// Returns the number of instructions of the wrapper's verb `state` with a configuration that names
/// the runtime.
pub(crate) fn count() -> u64 {
    // Paths of the same length on each machine: the wrapper reads them byte by byte.
    let dir = tempfile::Builder::new().prefix("nri-").tempdir_in("/tmp").expect("/tmp is writable");
    let (config, program) =
        (dir.path().join("config.toml"), dir.path().join("nri-container-runtime"));
    let state_dir = dir.path().join("s");
    let text = format!("state_dir = {state_dir:?}\n\n[runtime]\npath = \"/bin/true\"\n");
    fs::write(&config, text).expect("/tmp is writable");
    // As `nrid` does; without root, the wrapper reads the file.
    let environment = Environment::default();
    let loaded = LoadedConfig::read(Some(&config), &environment);
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
    let count = step_until_exec(pid); // the runtime
    ptrace::detach(pid, None).expect("the child is stopped");
    let status = child.wait().expect("the child exists");
    assert!(status.success(), "the wrapper has not executed the runtime: {status}");
    let _ = fs::remove_file(published_file(&config));
    count
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

/// Lets the child run until it has executed the next program, and counts its instructions.
fn step_until_exec(pid: Pid) -> u64 {
    let (mut count, mut signal) = (0, None);
    while !is_exec(pid, &mut signal) {
        // ptrace sends this signal at the end of each step; the child must not receive it.
        if signal == Some(Signal::SIGTRAP) {
            signal = None;
            count += 1;
        }
        ptrace::step(pid, signal.take()).expect("the child is stopped");
    }
    count
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
