//! What the wrapper says, and where.

use crate::lab::{Lab, Server, stderr};
use serde_json::Value;
use std::fs;

const MESSAGE: &str = "plugin 10-a refuses \"memory\" of container id";

fn refuse(lab: &Lab, globals: &[&str]) -> String {
    let _server = Server::refusing(lab, MESSAGE);
    let output = lab.run(&[globals, &["create", "--bundle", "bundle", "id"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    lab.check_not_called();
    let said = stderr(&output);
    assert_eq!(said, format!("nri-container-runtime: {MESSAGE}\n"));
    said
}

#[test]
fn json_lines_are_appended() {
    let lab = Lab::new();
    for globals in
        [&["--log", "log", "--log-format", "json"][..], &["--log=log", "--log-format=json"]]
    {
        fs::write(lab.path("log"), "{\"level\":\"info\",\"msg\":\"before\"}\n").unwrap();
        refuse(&lab, globals);
        // As containerd reads it: a stream of JSON values.
        let text = fs::read_to_string(lab.path("log")).unwrap();
        let values: Vec<Value> =
            serde_json::Deserializer::from_str(&text).into_iter().map(Result::unwrap).collect();
        assert_eq!(values.len(), 2, "{text}");
        assert_eq!(values[1]["level"], "error");
        assert_eq!(values[1]["msg"], format!("nri-container-runtime: {MESSAGE}"));
        let time = values[1]["time"].as_str().unwrap();
        assert!(time.len() == 20 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
        assert!(text.ends_with("\n") && text.lines().count() == 2);
    }
}

#[test]
fn text_lines() {
    let lab = Lab::new();
    for globals in
        [&["--log", "log"][..], &["--log", "log", "--log-format", "text"], &["--log", "file:log"]]
    {
        refuse(&lab, globals);
        let text = fs::read_to_string(lab.path("log")).unwrap();
        fs::remove_file(lab.path("log")).unwrap();
        assert!(text.starts_with("time=\"2"), "{text}");
        assert!(text.ends_with("Z\" level=error msg=\"nri-container-runtime: plugin 10-a refuses \\\"memory\\\" of container id\"\n"), "{text}");
    }
}

#[test]
fn a_log_that_cannot_be_written_changes_nothing() {
    let lab = Lab::new();
    for log in ["missing/log", "bundle", "/dev/full", "journald:id", "syslog:id"] {
        refuse(&lab, &["--log", log]);
    }
    assert!(!lab.path("journald:id").exists() && !lab.path("syslog:id").exists());
}

#[test]
fn nobody_listening_to_stderr_changes_nothing() {
    let lab = Lab::new();
    let _server = Server::refusing(&lab, MESSAGE);
    let mut command = lab.command(&["--log", "log", "create", "--bundle", "bundle", "id"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(command.stderr(writer).status().unwrap().code(), Some(1));
    assert!(fs::read_to_string(lab.path("log")).unwrap().contains("10-a"));
}

#[test]
fn several_lines_become_one() {
    let lab = Lab::new();
    let _server = Server::refusing(&lab, "first\nsecond\n");
    assert_eq!(stderr(&lab.run(&["start", "id"])), "nri-container-runtime: first; second\n");
}

#[test]
fn success_leaves_the_log_alone() {
    let lab = Lab::new();
    let _server = Server::proceeding(&lab);
    for verb in ["create", "start", "delete", "update", "run", "state"] {
        let output = lab.run(&["--log", "log", "--log-format", "json", verb, "id"]);
        assert!(output.status.success());
        assert_eq!(stderr(&output), "");
        assert!(!lab.path("log").exists(), "{verb}");
    }
}

#[test]
fn the_real_runtimes_own_failure_gets_no_line_of_ours() {
    let lab = Lab::new();
    let _server = Server::proceeding(&lab);
    lab.fake
        .script(&crate::lab::always(serde_json::json!({"exit": 1, "stderr": "its own words\n"})))
        .unwrap();
    let output = lab.run(&["--log", "log", "create", "-b", "bundle", "id"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(1), "its own words\n"));
    assert!(!lab.path("log").exists());
}
