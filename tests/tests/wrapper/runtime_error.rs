//! A failure of the real runtime: the wrapper reports the runtime's error to nrid, and adds the
//! plugins in question to it.

use crate::harness::{Server, WrapperHarness, always, stderr};
use nri_control::{Exit, Reply, Request, Substitute};
use serde_json::{Value, json};
use std::fs;

const ADDITION: &str = "set by plugins: 10-a: cpu.cpus=\"99\"";

/// Starts an nrid that adds to each failure.
fn adding(harness: &WrapperHarness) -> Server {
    Server::start(harness, |request| match request {
        Request::Begin(_) => Reply::Proceed(Substitute::default()),
        _ => Reply::Refused { message: ADDITION.to_owned() },
    })
}

fn script(harness: &WrapperHarness, log: &str) {
    harness.fake.clear();
    let step = json!({"exit": 3, "log": log, "stderr": "write cpuset.cpus\n"});
    harness.fake.script(&always(step)).unwrap();
}

#[test]
fn the_last_error_of_the_log_has_the_runtimes_error_and_the_plugins() {
    let harness = WrapperHarness::new();
    let before = "{\"level\":\"error\",\"msg\":\"of an earlier call\"}\n";
    for log in [
        "{\"level\":\"error\",\"msg\":\"write cpuset.cpus\",\"time\":\"t\"}\n",
        // As crun and youki write it.
        "{\n  \"msg\": \"write cpuset.cpus\",\n  \"level\": \"error\"\n}\n",
        "{\"level\":\"ERROR\",\"message\":\"write cpuset.cpus\"}\n",
    ] {
        for verb in [&["create", "--bundle", "bundle", "id"][..], &["update", "id"]] {
            let server = adding(&harness);
            fs::write(harness.path("log"), before).unwrap();
            script(&harness, log);
            let globals = ["--log", "log", "--log-format", "json"];
            let output = harness.run(&[&globals, verb].concat());
            assert_eq!(output.status.code(), Some(3));
            let expected = format!("write cpuset.cpus\nnri-container-runtime: {ADDITION}\n");
            assert_eq!(stderr(&output), expected);
            let finished = server.finished().unwrap();
            assert_eq!(finished.exit, Exit::Code(3));
            assert_eq!(finished.error.as_deref(), Some("write cpuset.cpus"));
            let text = fs::read_to_string(harness.path("log")).unwrap();
            // What the runtime wrote stays.
            let line = text.strip_prefix(&format!("{before}{log}")).unwrap();
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["level"], "error");
            assert_eq!(line["msg"], format!("write cpuset.cpus; {ADDITION}"));
        }
    }
}

#[test]
fn a_log_of_text_lines_gets_a_text_line() {
    let harness = WrapperHarness::new();
    let _server = adding(&harness);
    let log = "time=\"t\" level=error msg=\"write \\\"99\\\"\"\n";
    script(&harness, log);
    harness.run(&["--log", "log", "create", "--bundle", "bundle", "id"]);
    let text = fs::read_to_string(harness.path("log")).unwrap();
    let line = text.strip_prefix(log).unwrap();
    let end = "level=error msg=\"write \\\"99\\\"; set by plugins: 10-a: cpu.cpus=\\\"99\\\"\"\n";
    assert!(line.starts_with("time=\"2") && line.ends_with(end), "{text}");
}

#[test]
fn without_an_error_in_the_log_only_stderr_has_the_plugins() {
    let harness = WrapperHarness::new();
    let before = "{\"level\":\"error\",\"msg\":\"of an earlier call\"}\n";
    fs::write(harness.path("log"), before).unwrap();
    for globals in [&["--log", "log", "--log-format", "json"][..], &[]] {
        let server = adding(&harness);
        script(&harness, "");
        let output = harness.run(&[globals, &["create", "--bundle", "bundle", "id"]].concat());
        assert!(stderr(&output).ends_with(&format!("nri-container-runtime: {ADDITION}\n")));
        assert_eq!(server.finished().unwrap().error, None);
        assert_eq!(fs::read_to_string(harness.path("log")).unwrap(), before);
    }
}

#[test]
fn a_killed_runtime_and_one_that_succeeds_report_no_error() {
    let harness = WrapperHarness::new();
    for step in [json!({"signal": 9}), json!({})] {
        let server = Server::proceeding(&harness);
        let mut step = step;
        step["log"] = "{\"level\":\"error\",\"msg\":\"m\"}\n".into();
        harness.fake.script(&always(step)).unwrap();
        let globals = ["--log", "log", "--log-format", "json"];
        harness.run(&[&globals[..], &["create", "--bundle", "bundle", "id"]].concat());
        assert_eq!(server.finished().unwrap().error, None);
        assert_eq!(fs::read_to_string(harness.path("log")).unwrap().lines().count(), 1);
        fs::remove_file(harness.path("log")).unwrap();
    }
}
