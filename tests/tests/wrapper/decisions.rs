//! What is decided before the start of the C library: usual calls, and nothing else. The decisions
//! are made in this process, by the function that the entry point of the wrapper calls.

use crate::harness::{Reaction, Server, WrapperHarness};
use nri_control::{Begin, Client, Reply, Request, Substitute, Verb, encode};
use nri_files::OsText;
use nri_locate::{BYPASS_ENV, BYPASS_FILE, CONFIG_ENV};
use nri_passthrough::{BorrowedCall, Decision, PathBuffer, Sent, decide};
use std::{
    mem::ManuallyDrop,
    os::{fd::OwnedFd, unix::fs::symlink},
    path::Path,
};

/// What became of a call, and the reply that is left in the socket if a request was sent.
#[derive(Debug, PartialEq)]
enum Outcome {
    Runtime(Option<Reply>),
    Later(Option<Reply>),
}

/// The wrapper decides after the C library's start, and nothing was sent.
const NOT_DECIDED: Outcome = Outcome::Later(None);
/// The runtime is called without a request.
const PASSED_THROUGH: Outcome = Outcome::Runtime(None);

/// Decides on a call of the wrapper by this name. BUNDLE in `line` stands for a bundle.
fn decide_as(harness: &WrapperHarness, name: &str, line: &str, entries: &[&str]) -> Outcome {
    let line = line.replace("BUNDLE", &harness.text("bundle"));
    let arguments: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
    let config = format!("{CONFIG_ENV}={}", harness.text("config.toml"));
    let path = format!("PATH={}", harness.text("bin"));
    let entries: Vec<&str> = entries.iter().copied().chain([&*config, &*path]).collect();
    let call = BorrowedCall {
        name: name.as_bytes(),
        arguments: &arguments,
        environment: entries.iter().map(|entry| entry.as_bytes()),
        close: |fd| nix::unistd::close(fd).unwrap(),
    };
    let mut found = PathBuffer::default();
    let (sent, is_runtime) = match decide(call, &mut found) {
        Decision::Runtime(path, sent) => {
            assert_eq!(path.to_str().unwrap(), harness.fake.path.to_str().unwrap());
            (sent, true)
        }
        Decision::Later(sent) => (sent, false),
    };
    let left = sent.map(|Sent { connection, bundle }| {
        drop(bundle.map(ManuallyDrop::into_inner));
        let connection: OwnedFd = ManuallyDrop::into_inner(connection);
        // The reply is in the socket: nothing is sent.
        Client::from(connection).first_reply(&encode(&Request::Ping).unwrap(), &[]).unwrap()
    });
    if is_runtime { Outcome::Runtime(left) } else { Outcome::Later(left) }
}

fn decide_on(harness: &WrapperHarness, line: &str, entries: &[&str]) -> Outcome {
    decide_as(harness, "/usr/bin/nri-container-runtime", line, entries)
}

fn proceed(exec: bool) -> Reply {
    Reply::Proceed(Substitute { exec, ..Substitute::default() })
}

/// Whether no call is decided early.
fn is_skipped() -> bool {
    let is_bypassed = Path::new(BYPASS_FILE).exists();
    let is_user = !rustix::process::geteuid().is_root();
    if is_bypassed || is_user {
        println!("skipped: {BYPASS_FILE} exists, or the user is not root");
    }
    is_bypassed || is_user
}

#[test]
fn usual_calls_without_an_event_are_passed_through() {
    if is_skipped() {
        return;
    }
    let harness = WrapperHarness::new();
    let markers = harness.path("state").join(nri_files::EXEC_DIR);
    std::fs::create_dir(&markers).unwrap();
    std::fs::write(markers.join("adjusted.json"), "{}").unwrap();
    let long = "x".repeat(252);
    let marker = nri_files::ExecMarker::path(&harness.path("state"), &long);
    std::fs::write(marker, "{}").unwrap();
    let of_long = format!("exec --process /p {long}");
    for (line, is_passed) in [
        ("--root /r --log /l --log-format json state id", true),
        ("--root /r --log /l --log-format json --systemd-cgroup kill id 9", true),
        ("--version", true),
        ("create --help", true),
        ("start", true),
        ("delete --regex a/b", true),
        ("create --bundle /nowhere id", true),
        ("exec --tty id sh", true),
        ("--root /r exec --process /p --detach --pid-file /f id", true),
        ("exec --process /p ../id", true),
        ("--root /r exec --process /p --detach --pid-file /f adjusted", false),
        (&of_long, false),
        ("--nri-version", false),
        ("--nri-config /c state id", false),
    ] {
        let expected = if is_passed { PASSED_THROUGH } else { NOT_DECIDED };
        assert_eq!(decide_on(&harness, line, &[]), expected, "{line}");
    }
    harness.configure("disable = true");
    for line in ["create --bundle BUNDLE id", "start id", "exec --process /p adjusted"] {
        assert_eq!(decide_on(&harness, line, &[]), PASSED_THROUGH, "{line}");
    }
    harness.unpublish();
    assert_eq!(decide_on(&harness, "state id", &[]), NOT_DECIDED, "nothing is published");
}

#[test]
fn the_name_of_the_call_and_the_environment_name_the_runtime() {
    if is_skipped() {
        return;
    }
    let harness = WrapperHarness::new();
    let runtime = &harness.fake.path;
    harness.configure(&format!(
        "[runtime]\npath = 'missing'\n[runtime.names.nri-x]\npath = {runtime:?}\n"
    ));
    assert_eq!(decide_on(&harness, "state id", &[]), NOT_DECIDED, "no such runtime");
    assert_eq!(decide_as(&harness, "/x/nri-x", "state id", &[]), PASSED_THROUGH);
    assert_eq!(decide_as(&harness, "nri-runc", "state id", &[]), PASSED_THROUGH);
    assert_eq!(decide_as(&harness, "nri-missing", "state id", &[]), NOT_DECIDED);
    let variable = |value: &str| format!("{}={value}", nri_locate::RUNTIME_ENV);
    assert_eq!(decide_on(&harness, "state id", &[&variable("runc")]), PASSED_THROUGH);
    assert_eq!(decide_on(&harness, "state id", &[&variable("./runc")]), NOT_DECIDED);
    // This process takes the place of the wrapper, which is not its own runtime.
    symlink("/proc/self/exe", harness.path("bin/oneself")).unwrap();
    assert_eq!(decide_as(&harness, "nri-oneself", "state id", &[]), NOT_DECIDED);
}

#[test]
fn the_request_of_a_usual_verb_is_sent() {
    if is_skipped() {
        return;
    }
    let harness = WrapperHarness::new();
    let bundle = harness.text("bundle");
    let odd = ["", "A", "B=\"\\ \u{fc}\u{7f}\n", "A=2"];
    for (line, verb, entries, flag) in [
        ("start id", Verb::Start, &[][..], false),
        ("--root /r --log /l --log-format json start a.b_c-d+e\"\\", Verb::Start, &odd, false),
        ("--root=/r --systemd-cgroup delete id", Verb::Delete, &["X=/x"], false),
        ("--root= delete --force id", Verb::Delete, &odd, true),
        ("--unknown x delete id -f", Verb::Delete, &odd, true),
        (
            "--root /r create --bundle BUNDLE --pid-file p --console-socket /c id",
            Verb::Create,
            &["A=1"],
            false,
        ),
        ("create -b BUNDLE --no-pivot -- id", Verb::Create, &[], false),
        ("create id --bundle=BUNDLE --preserve-fds 3", Verb::Create, &[], false),
    ] {
        let is_create = verb == Verb::Create;
        let reply = proceed(!is_create);
        let server = Server::start(&harness, {
            let reply = reply.clone();
            move |_| reply.clone()
        });
        let outcome = decide_on(&harness, line, entries);
        // The C library starts while nrid works on a creation.
        let expected = if is_create { Outcome::Later } else { Outcome::Runtime };
        assert_eq!(outcome, expected(Some(reply)), "{line}");
        let (request, fds) = server.received().remove(0);
        let Request::Begin(begin) = request else { panic!("{request:?}") };
        let line = line.replace("BUNDLE", &bundle);
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == verb.name()).unwrap();
        let texts = |words: &[&str]| words.iter().map(OsText::from).collect::<Vec<_>>();
        let (config, path) = (harness.path("config.toml"), harness.path("bin"));
        let own =
            [format!("{CONFIG_ENV}={}", config.display()), format!("PATH={}", path.display())];
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let expected = Begin {
            verb,
            id: if line.contains("a.b") { "a.b_c-d+e\"\\" } else { "id" }.to_owned(),
            runtime: (&harness.fake.path).into(),
            root: (line.contains("--root /r") || line.contains("--root=/r")).then(|| "/r".into()),
            globals: texts(&words[..at]),
            arguments: texts(&words[at + 1..]),
            bundle: is_create.then(|| (&bundle).into()),
            config: is_create.then(|| "config.json".into()),
            cwd: std::env::current_dir().unwrap().as_os_str().into(),
            environment: texts(&[entries, &own].concat()),
            resources: None,
            flag,
            hook: None,
            follow: !is_create,
        };
        assert_eq!((*begin, fds), (expected, usize::from(is_create)), "{line}");
    }
}

#[test]
fn another_reply_is_left_to_the_wrapper() {
    if is_skipped() {
        return;
    }
    let harness = WrapperHarness::new();
    let refused = Reply::Refused { message: "x".repeat(1000) };
    for reply in [proceed(false), Reply::Bypass, refused] {
        let answer = reply.clone();
        let _server = Server::start(&harness, move |_| answer.clone());
        assert_eq!(decide_on(&harness, "start id", &[]), Outcome::Later(Some(reply)));
    }
}

#[test]
fn unusual_calls_are_left_to_the_wrapper() {
    if is_skipped() {
        return;
    }
    let harness = WrapperHarness::new();
    let server = Server::start(&harness, |_| Reaction::Close);
    let (bypass, long) = (format!("{BYPASS_ENV}=1"), format!("A={}", "x".repeat(20_000)));
    for (line, entries) in [
        ("start ..", &[][..]),
        ("start a/b", &[]),
        ("--root r start id", &[]),
        ("--nri-config /c start id", &[]),
        ("run --bundle BUNDLE id", &[]),
        ("restore --bundle BUNDLE id", &[]),
        ("update id", &[]),
        ("create id", &[]),
        ("create --bundle bundle id", &[]),
        ("create --bundle BUNDLE --config config id", &[]),
        ("create --bundle BUNDLE --bundle= id", &[]),
        ("start id", &[&*bypass]),
        ("start id", &[&*long]),
    ] {
        assert_eq!(decide_on(&harness, line, entries), NOT_DECIDED, "{line}");
    }
    assert_eq!(server.received(), []);
}
