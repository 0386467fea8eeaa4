//! Signals while the real runtime runs as a child.

use crate::harness::{Running, Server, WrapperHarness, always};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use nri_tests::fake_runtime::TIMEOUT;
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read, Write},
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    path::Path,
    process::Command,
    time::Instant,
};

const SI_USER: i64 = 0;
const SI_KERNEL: i64 = 0x80;

/// Starts the command of `make`, with a runtime that records signals until the file `release`
/// exists and then exits with 7. Returns when the runtime is called.
fn start_blocked(
    harness: &WrapperHarness,
    make: impl FnOnce(&WrapperHarness) -> Command,
) -> Running {
    harness
        .fake
        .script(&always(json!({"catch": true, "until": harness.path("release"), "exit": 7})))
        .unwrap();
    let running = Running::start(&mut make(harness));
    harness.fake.wait("the call", |records| !records.is_empty());
    running
}

fn create(harness: &WrapperHarness) -> Command {
    harness.command(&["create", "--bundle", "bundle", "id"])
}

/// Returns the records of a received signal.
fn records_of(records: &[Value], signal: Signal) -> Vec<&Value> {
    records.iter().filter(|r| r["signal"] == signal as i32).collect()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Returns the state letter of a process in `/proc`, or `None` if the process does not exist.
fn state(pid: i64) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

#[test]
fn a_signal_to_the_wrapper_alone_is_forwarded_to_the_child() {
    let harness = WrapperHarness::new();
    let server = Server::proceeding(&harness);
    let mut wrapper = start_blocked(&harness, create);
    for signal in [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGUSR1,
        Signal::SIGQUIT,
        Signal::SIGCONT,
    ] {
        wrapper.signal(signal);
        let records =
            harness.fake.wait(signal.as_str(), |records| !records_of(records, signal).is_empty());
        assert_eq!(records_of(&records, signal)[0]["sender"], wrapper.pid(), "{signal}");
        assert_eq!(records_of(&records, signal)[0]["code"], SI_USER, "{signal}");
    }
    fs::write(harness.path("release"), "").unwrap();
    assert_eq!(wrapper.0.wait().unwrap().code(), Some(7));
    assert_eq!(server.finished().unwrap().exit, nri_control::Exit::Code(7));
}

#[test]
fn ctrl_c_reaches_the_child_once() {
    let harness = WrapperHarness::new();
    let _server = Server::proceeding(&harness);
    let (master, terminal) = terminal();
    let mut wrapper = start_blocked(&harness, |harness| {
        let mut setsid = harness.command_of(Path::new("/usr/bin/setsid"), &["--ctty"]);
        setsid.arg(harness.wrapper()).args(["create", "--bundle", "bundle", "id"]);
        setsid
            .stdin(terminal.try_clone().unwrap())
            .stdout(terminal.try_clone().unwrap())
            .stderr(terminal);
        setsid
    });
    let mut master = fs::File::from(master);
    for (key, signal) in [(b"\x03", Signal::SIGINT), (b"\x1c", Signal::SIGQUIT)] {
        // The wrapper is stopped until the child has recorded the signal of the terminal: a second,
        // forwarded signal would go unnoticed if the first signal was still pending.
        wrapper.signal(Signal::SIGSTOP);
        wait_until("the wrapper is stopped", || state(wrapper.pid().into()) == Some('T'));
        master.write_all(key).unwrap();
        harness.fake.wait(signal.as_str(), |records| !records_of(records, signal).is_empty());
        wrapper.signal(Signal::SIGCONT);
    }
    // If the wrapper forwarded SIGINT or SIGQUIT as well, these would arrive before SIGUSR2.
    wrapper.signal(Signal::SIGUSR2);
    let records =
        harness.fake.wait("SIGUSR2", |records| !records_of(records, Signal::SIGUSR2).is_empty());
    for signal in [Signal::SIGINT, Signal::SIGQUIT] {
        let received: Vec<_> =
            records_of(&records, signal).iter().map(|n| n["code"].as_i64().unwrap()).collect();
        assert_eq!(received, [SI_KERNEL], "{signal}");
    }
    fs::write(harness.path("release"), "").unwrap();
    assert_eq!(wrapper.0.wait().unwrap().code(), Some(7));
}

/// Opens a pseudo-terminal; returns both ends.
fn terminal() -> (OwnedFd, fs::File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let terminal =
        fs::OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    (master, terminal)
}

#[test]
fn the_wrapper_dies_by_the_signal_of_the_child() {
    let harness = WrapperHarness::new();
    let _server = Server::proceeding(&harness);
    harness.fake.script(&always(json!({"until": harness.path("release")}))).unwrap();
    let mut wrapper = Running::start(&mut create(&harness));
    harness.fake.wait("the call", |records| !records.is_empty());
    wrapper.signal(Signal::SIGTERM);
    assert_eq!(wrapper.0.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
}

#[test]
fn killing_the_wrapper_kills_the_child() {
    let harness = WrapperHarness::new();
    let server = Server::proceeding(&harness);
    let wrapper = start_blocked(&harness, create);
    let child = harness.fake.calls()[0]["own"]["pid"].as_i64().unwrap();
    assert_ne!(child, i64::from(wrapper.pid()));
    wrapper.signal(Signal::SIGKILL);
    wait_until("the child exits", || matches!(state(child), None | Some('Z' | 'X')));
    assert_eq!(server.finished(), None);
}

#[test]
fn the_wrapper_stops_and_continues_with_the_child() {
    let harness = WrapperHarness::new();
    let _server = Server::proceeding(&harness);
    let mut wrapper = start_blocked(&harness, create);
    let child = harness.fake.calls()[0]["own"]["pid"].as_i64().unwrap();
    kill(Pid::from_raw(child as i32), Signal::SIGSTOP).unwrap();
    wait_until("the wrapper stops with its child", || state(wrapper.pid().into()) == Some('T'));
    wrapper.signal(Signal::SIGCONT);
    wait_until("the child continues with the wrapper", || state(child) != Some('T'));
    fs::write(harness.path("release"), "").unwrap();
    assert_eq!(wrapper.0.wait().unwrap().code(), Some(7));
}

#[test]
fn a_signal_before_the_child_starts_kills_the_wrapper() {
    let harness = WrapperHarness::new();
    let (requested, release) = (harness.path("requested"), harness.path("release"));
    let request = requested.clone();
    let _server = Server::start(&harness, move |_| {
        fs::write(&request, "").unwrap();
        wait_until("the test creates the file release", || release.exists());
        crate::harness::Reaction::Close
    });
    let mut wrapper = Running::start(&mut create(&harness));
    wait_until("nrid receives the request", || requested.exists());
    wrapper.signal(Signal::SIGTERM);
    assert_eq!(wrapper.0.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
    fs::write(harness.path("release"), "").unwrap();
    harness.check_not_called();
}

#[test]
fn output_is_complete_when_the_wrapper_ends() {
    let harness = WrapperHarness::new();
    let _server = Server::proceeding(&harness);
    let text = "x".repeat(300_000); // more than a pipe holds (64 KiB)
    harness.fake.script(&always(json!({"stdout": text}))).unwrap();
    let mut wrapper = Running::start(create(&harness).stdout(std::process::Stdio::piped()));
    let mut got = String::new();
    wrapper.0.stdout.take().unwrap().read_to_string(&mut got).unwrap();
    assert_eq!(got.len(), text.len());
    assert_eq!(wrapper.0.wait().unwrap().code(), Some(0));
}
