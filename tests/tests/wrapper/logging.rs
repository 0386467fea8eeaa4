//! Messages of the wrapper on stderr and in the file of `--log`.

use crate::harness::{Server, WrapperHarness, stderr};
use serde_json::Value;
use std::fs;

const MESSAGE: &str = "plugin 10-a refuses \"memory\" of container id";

/// Runs a create that nrid refuses, checks its exit code and stderr, and returns stderr.
fn refuse(harness: &WrapperHarness, globals: &[&str]) -> String {
    let _server = Server::refusing(harness, MESSAGE);
    let output = harness.run(&[globals, &["create", "--bundle", "bundle", "id"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    harness.check_not_called();
    let error = stderr(&output);
    assert_eq!(error, format!("nri-container-runtime: {MESSAGE}\n"));
    error
}

#[test]
fn json_log_lines_are_appended() {
    let harness = WrapperHarness::new();
    for globals in
        [&["--log", "log", "--log-format", "json"][..], &["--log=log", "--log-format=json"]]
    {
        fs::write(harness.path("log"), "{\"level\":\"info\",\"msg\":\"before\"}\n").unwrap();
        refuse(&harness, globals);
        // containerd reads the file as a stream of JSON values.
        let text = fs::read_to_string(harness.path("log")).unwrap();
        let values: Vec<Value> =
            serde_json::Deserializer::from_str(&text).into_iter().map(Result::unwrap).collect();
        assert_eq!(values.len(), 2, "{text}");
        assert_eq!(values[1]["level"], "error");
        assert_eq!(values[1]["msg"], format!("nri-container-runtime: {MESSAGE}"));
        // RFC 3339 in UTC, without fractions of a second: 2026-08-01T10:00:00Z.
        let time = values[1]["time"].as_str().unwrap();
        assert!(time.len() == 20 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
        assert!(text.ends_with("\n") && text.lines().count() == 2);
    }
}

#[test]
fn text_log_lines_are_appended_in_runcs_format() {
    let harness = WrapperHarness::new();
    for globals in
        [&["--log", "log"][..], &["--log", "log", "--log-format", "text"], &["--log", "file:log"]]
    {
        refuse(&harness, globals);
        let text = fs::read_to_string(harness.path("log")).unwrap();
        fs::remove_file(harness.path("log")).unwrap();
        assert!(text.starts_with("time=\"2"), "{text}");
        assert!(
            text.ends_with(
                "Z\" level=error msg=\"nri-container-runtime: plugin 10-a \
                                refuses \\\"memory\\\" of container id\"\n"
            ),
            "{text}"
        );
    }
}

#[test]
fn a_log_that_cannot_be_written_changes_neither_exit_code_nor_stderr() {
    let harness = WrapperHarness::new();
    for log in ["missing/log", "bundle", "/dev/full", "journald:id", "syslog:id"] {
        refuse(&harness, &["--log", log]);
    }
    assert!(!harness.path("journald:id").exists() && !harness.path("syslog:id").exists());
}

#[test]
fn a_closed_stderr_pipe_changes_neither_exit_code_nor_log() {
    let harness = WrapperHarness::new();
    let _server = Server::refusing(&harness, MESSAGE);
    let mut command = harness.command(&["--log", "log", "create", "--bundle", "bundle", "id"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(command.stderr(writer).status().unwrap().code(), Some(1));
    assert!(fs::read_to_string(harness.path("log")).unwrap().contains("10-a"));
}

#[test]
fn a_message_of_several_lines_is_written_as_one_line() {
    let harness = WrapperHarness::new();
    let _server = Server::refusing(&harness, "first\nsecond\n");
    assert_eq!(stderr(&harness.run(&["start", "id"])), "nri-container-runtime: first; second\n");
}

#[test]
fn success_writes_no_log() {
    let harness = WrapperHarness::new();
    let _server = Server::proceeding(&harness);
    for verb in ["create", "start", "delete", "update", "run", "state"] {
        let output = harness.run(&["--log", "log", "--log-format", "json", verb, "id"]);
        assert!(output.status.success());
        assert_eq!(stderr(&output), "");
        assert!(!harness.path("log").exists(), "{verb}");
    }
}

#[test]
fn a_failure_of_the_real_runtime_writes_no_log() {
    let harness = WrapperHarness::new();
    let _server = Server::proceeding(&harness);
    harness
        .fake
        .script(&crate::harness::always(
            serde_json::json!({"exit": 1, "stderr": "an error of the runtime\n"}),
        ))
        .unwrap();
    let output = harness.run(&["--log", "log", "create", "-b", "bundle", "id"]);
    assert_eq!(
        (output.status.code(), stderr(&output).as_str()),
        (Some(1), "an error of the runtime\n")
    );
    assert!(!harness.path("log").exists());
}
