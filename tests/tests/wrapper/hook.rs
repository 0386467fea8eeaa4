//! Tests of the program `nri-oci-hook`.

use crate::harness::{Reaction, Server, WrapperHarness, stderr};
use nri_control::{Hook, HookKind, Reply, Request};
use nri_files::CONTROL_SOCKET;
use nri_locate::{BYPASS_ENV, BYPASS_FILE};
use nri_tests::fake_runtime::program;
use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

const STATE: &str =
    "{\"ociVersion\":\"1.2.0\",\"id\":\"c\",\"status\":\"creating\",\"pid\":1,\"bundle\":\"/b\"}";

/// Runs the hook with `input` on stdin, after `prepare` changed its command.
fn hook(
    harness: &WrapperHarness,
    kind: &str,
    input: &[u8],
    prepare: impl FnOnce(&mut Command),
) -> Output {
    let socket = harness.path("state").join(CONTROL_SOCKET);
    let mut command = Command::new(program("nri-oci-hook"));
    command.arg("--socket").arg(socket).args(["--record", "key", kind]).env_clear();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    prepare(&mut command);
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join();
    output
}

const KINDS: [(&str, HookKind); 3] = [
    ("createRuntime", HookKind::CreateRuntime),
    ("poststart", HookKind::Poststart),
    ("poststop", HookKind::Poststop),
];

#[test]
fn a_hook_sends_its_kind_record_and_state_to_nrid() {
    let harness = WrapperHarness::new();
    for (name, kind) in KINDS {
        let server = Server::start(&harness, |_| Reply::Done);
        let output = hook(&harness, name, STATE.as_bytes(), |_| {});
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
        let expected = Request::Hook(Box::new(Hook {
            kind,
            record: "key".to_owned(),
            state: STATE.to_owned(),
        }));
        assert_eq!(server.received(), [(expected, 0)]);
    }
}

/// Checks that only `createRuntime` exits with 1, and that every kind writes one line with `parts`
/// to stderr.
fn check_error(harness: &WrapperHarness, input: &[u8], parts: &[&str]) {
    for (name, kind) in KINDS {
        let output = hook(harness, name, input, |_| {});
        let error = stderr(&output);
        assert_eq!(
            output.status.code(),
            Some(i32::from(kind == HookKind::CreateRuntime)),
            "{name}: {error}"
        );
        assert_eq!(error.lines().count(), 1, "{error}");
        for part in parts {
            assert!(error.contains(part), "{name}: {part:?} in {error}");
        }
    }
}

#[test]
fn only_create_runtime_fails_if_nrid_refuses() {
    let harness = WrapperHarness::new();
    let _server = Server::refusing(&harness, "plugin 10-a: no");
    check_error(&harness, STATE.as_bytes(), &["plugin 10-a: no"]);
}

#[test]
fn only_create_runtime_fails_without_nrid() {
    let harness = WrapperHarness::new();
    check_error(
        &harness,
        STATE.as_bytes(),
        &["cannot connect to nrid", "nrictl start", &format!("{BYPASS_ENV}=1"), BYPASS_FILE],
    );
    let output = hook(&harness, "createRuntime", STATE.as_bytes(), |c| {
        c.env(BYPASS_ENV, "1");
    });
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let _server = Server::start(&harness, |_| Reaction::Close);
    check_error(&harness, STATE.as_bytes(), &["closed the connection"]);
}

#[test]
fn a_malformed_state_is_an_error() {
    let harness = WrapperHarness::new();
    let server = Server::start(&harness, |_| Reply::Done);
    // The state is limited to 4 MiB.
    check_error(&harness, &vec![b' '; (4 << 20) + 1], &["larger than"]);
    check_error(&harness, b"\xff", &["stdin"]);
    assert_eq!(server.received(), []);
}
