//! `update`: the resources document is read by the wrapper and still reaches the real runtime.

use crate::lab::{Lab, Server, always, argv, stderr};
use nri_control::{Reply, Request, Substitute};
use serde_json::{Value, json};
use std::{fs, io::Write, process::Stdio};

const DOCUMENT: &str = "{\"cpu\":{\"shares\":512}}\n";

/// Runs an update with `input` on stdin; returns the resources that nrid was told and the call of
/// the real runtime.
fn update(
    lab: &Lab,
    server: Option<&Server>,
    arguments: &[&str],
    input: &[u8],
) -> (Option<String>, Value) {
    lab.fake.forget();
    lab.fake.script(&always(json!({"stdin": true}))).unwrap();
    let mut child =
        lab.command(arguments).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // It may not be read.
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join();
    assert!(output.status.success(), "{}", stderr(&output));
    let told = server.and_then(|s| {
        s.heard()
            .into_iter()
            .find_map(|(r, _)| if let Request::Begin(b) = r { b.resources } else { None })
    });
    (told, lab.fake.calls().remove(0))
}

#[test]
fn from_stdin() {
    let lab = Lab::new();
    for arguments in [
        &["update", "--resources", "-", "id"][..],
        &["update", "--resources=-", "id"],
        &["update", "-r-", "id"],
    ] {
        for reply in [Reply::Proceed(Substitute::default()), Reply::Bypass] {
            let server = Server::start(&lab, move |r| {
                if matches!(r, Request::Begin(_)) { reply.clone() } else { Reply::Done }
            });
            let (told, call) = update(&lab, Some(&server), arguments, DOCUMENT.as_bytes());
            assert_eq!(told.as_deref(), Some(DOCUMENT));
            assert_eq!(argv(&call)[1..], *arguments);
            assert_eq!(call["stdin"], DOCUMENT);
        }
    }
}

#[test]
fn from_a_file() {
    let lab = Lab::new();
    let server = Server::proceeding(&lab);
    fs::write(lab.path("res"), DOCUMENT).unwrap();
    let (told, call) =
        update(&lab, Some(&server), &["update", "--resources", "res", "id"], b"not read");
    assert_eq!(told.as_deref(), Some(DOCUMENT));
    assert_eq!(argv(&call)[1..], ["update", "--resources", "res", "id"]);
    assert_eq!(call["stdin"], "not read");
}

#[test]
fn from_a_pipe_with_a_name() {
    let lab = Lab::new();
    let server = Server::proceeding(&lab);
    for name in ["/dev/stdin", "/proc/self/fd/0"] {
        let option = format!("--resources={name}");
        let (told, call) =
            update(&lab, Some(&server), &["update", &option, "id"], DOCUMENT.as_bytes());
        assert_eq!(told.as_deref(), Some(DOCUMENT));
        assert_eq!(
            argv(&call)[1..],
            ["update", "--resources=-", "id"],
            "what was read once cannot be read by name again"
        );
        assert_eq!(call["stdin"], DOCUMENT);
    }
}

#[test]
fn what_is_no_document_is_the_real_runtimes_to_refuse() {
    let lab = Lab::new();
    let server = Server::proceeding(&lab);
    let (told, call) = update(&lab, Some(&server), &["update", "--resources=-", "id"], b"\xff{");
    assert_eq!(told, None);
    assert_eq!(call["stdin"], json!({"bytes": [255, 123]}));
    let (_, call) = update(&lab, Some(&server), &["update", "--resources=missing", "id"], b"");
    assert_eq!(argv(&call)[1..], ["update", "--resources=missing", "id"]);
}

#[test]
fn without_nrid_stdin_is_not_touched() {
    let lab = Lab::new();
    let (_, call) = update(&lab, None, &["update", "--resources", "-", "id"], DOCUMENT.as_bytes());
    assert_eq!(call["stdin"], DOCUMENT);
    assert!(call["own"]["fds"]["0"].as_str().unwrap().starts_with("pipe:"));
}

#[test]
fn nrid_that_hangs_up_leaves_the_document() {
    let lab = Lab::new();
    let server = Server::start(&lab, |_| crate::lab::Act::HangUp);
    let (told, call) =
        update(&lab, Some(&server), &["update", "--resources", "-", "id"], DOCUMENT.as_bytes());
    assert_eq!(told.as_deref(), Some(DOCUMENT));
    assert_eq!(call["stdin"], DOCUMENT);
}

#[test]
fn a_refused_update_fails() {
    let lab = Lab::new();
    let _server = Server::refusing(&lab, "plugin 10-a: no");
    let output = lab.run(&["update", "--memory", "1", "id"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("plugin 10-a: no"), "{}", stderr(&output));
    lab.check_not_called();
}
