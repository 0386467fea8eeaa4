//! `update`: the wrapper sends the resources to nrid, and the real runtime still receives them.

use crate::harness::{Server, WrapperHarness, always, argv, stderr};
use nri_control::{Reply, Request, Substitute};
use serde_json::{Value, json};
use std::{fs, io::Write, process::Stdio};

const RESOURCES: &str = "{\"cpu\":{\"shares\":512}}\n";

/// Runs an update with `input` on stdin. Returns the resources that nrid received, and the call of
/// the real runtime.
fn update(
    harness: &WrapperHarness,
    server: Option<&Server>,
    arguments: &[&str],
    input: &[u8],
) -> (Option<String>, Value) {
    harness.fake.clear();
    harness.fake.script(&always(json!({"stdin": true}))).unwrap();
    let mut child =
        harness.command(arguments).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A thread writes the input, because the wrapper may exit without reading it.
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join();
    assert!(output.status.success(), "{}", stderr(&output));
    let sent = server.and_then(|s| {
        s.received()
            .into_iter()
            .find_map(|(r, _)| if let Request::Begin(b) = r { b.resources } else { None })
    });
    (sent, harness.fake.calls().remove(0))
}

#[test]
fn resources_are_read_from_stdin() {
    let harness = WrapperHarness::new();
    for arguments in [
        &["update", "--resources", "-", "id"][..],
        &["update", "--resources=-", "id"],
        &["update", "-r-", "id"],
    ] {
        for reply in [Reply::Proceed(Substitute::default()), Reply::Bypass] {
            let server = Server::start(&harness, move |r| {
                if matches!(r, Request::Begin(_)) { reply.clone() } else { Reply::Done }
            });
            let (sent, call) = update(&harness, Some(&server), arguments, RESOURCES.as_bytes());
            assert_eq!(sent.as_deref(), Some(RESOURCES));
            assert_eq!(argv(&call)[1..], *arguments);
            assert_eq!(call["stdin"], RESOURCES);
        }
    }
}

#[test]
fn resources_are_read_from_a_file() {
    let harness = WrapperHarness::new();
    let server = Server::proceeding(&harness);
    fs::write(harness.path("res"), RESOURCES).unwrap();
    let (sent, call) =
        update(&harness, Some(&server), &["update", "--resources", "res", "id"], b"not read");
    assert_eq!(sent.as_deref(), Some(RESOURCES));
    assert_eq!(argv(&call)[1..], ["update", "--resources", "res", "id"]);
    assert_eq!(call["stdin"], "not read");
}

#[test]
fn resources_are_read_from_a_pipe_with_a_path() {
    let harness = WrapperHarness::new();
    let server = Server::proceeding(&harness);
    for name in ["/dev/stdin", "/proc/self/fd/0"] {
        let option = format!("--resources={name}");
        let (sent, call) =
            update(&harness, Some(&server), &["update", &option, "id"], RESOURCES.as_bytes());
        assert_eq!(sent.as_deref(), Some(RESOURCES));
        assert_eq!(
            argv(&call)[1..],
            ["update", "--resources=-", "id"],
            "the runtime cannot read the pipe again by its path"
        );
        assert_eq!(call["stdin"], RESOURCES);
    }
}

#[test]
fn malformed_resources_are_passed_to_the_real_runtime() {
    let harness = WrapperHarness::new();
    let server = Server::proceeding(&harness);
    let (sent, call) =
        update(&harness, Some(&server), &["update", "--resources=-", "id"], b"\xff{");
    assert_eq!(sent, None);
    // The record has bytes in place of a text that is not UTF-8.
    assert_eq!(call["stdin"], json!({"bytes": [255, 123]}));
    let (_, call) = update(&harness, Some(&server), &["update", "--resources=missing", "id"], b"");
    assert_eq!(argv(&call)[1..], ["update", "--resources=missing", "id"]);
}

#[test]
fn without_nrid_stdin_is_passed_through() {
    let harness = WrapperHarness::new();
    let (_, call) =
        update(&harness, None, &["update", "--resources", "-", "id"], RESOURCES.as_bytes());
    assert_eq!(call["stdin"], RESOURCES);
    assert!(call["own"]["fds"]["0"].as_str().unwrap().starts_with("pipe:"));
}

#[test]
fn resources_reach_the_runtime_if_nrid_closes_the_connection() {
    let harness = WrapperHarness::new();
    let server = Server::start(&harness, |_| crate::harness::Reaction::Close);
    let (sent, call) = update(
        &harness,
        Some(&server),
        &["update", "--resources", "-", "id"],
        RESOURCES.as_bytes(),
    );
    assert_eq!(sent.as_deref(), Some(RESOURCES));
    assert_eq!(call["stdin"], RESOURCES);
}

#[test]
fn a_refused_update_fails() {
    let harness = WrapperHarness::new();
    let _server = Server::refusing(&harness, "plugin 10-a: no");
    let output = harness.run(&["update", "--memory", "1", "id"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("plugin 10-a: no"), "{}", stderr(&output));
    harness.check_not_called();
}
