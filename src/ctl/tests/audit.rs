//! `nrictl events` and `nrictl explain` on files of the audit log, without an `nrid`.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Output, Stdio},
};

fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut call = Command::new(env!("CARGO_BIN_EXE_nrictl"));
    let config = dir.join("config.toml");
    if !config.exists() {
        fs::write(&config, "").unwrap();
    }
    call.arg("--config").arg(config).arg("--state-dir").arg(dir).args(arguments);
    call
}

fn nrictl(dir: &Path, arguments: &[&str]) -> Output {
    command(dir, arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Two lines: the first in the previous file, the second in the current one.
const FIRST: &str = r#"{"time":"2026-01-02T03:04:05.000006Z","event":"adjustment","plugin":"10-a","container":"c1","name":"web","creation":1,"request":"create","changes":[{"field":"pids.limit","path":"/linux/resources/pids/limit","before":10,"after":20}]}"#;
const SECOND: &str = r#"{"time":"2026-01-02T04:04:05.000006Z","event":"refusal","plugin":"20-b","container":"c1","name":"web","creation":1,"request":"update","message":"no"}"#;

fn write_log(dir: &Path) {
    fs::write(dir.join("audit.log.1"), format!("{FIRST}\n")).unwrap();
    fs::write(dir.join("audit.log"), format!("{SECOND}\n")).unwrap();
}

#[test]
fn events_are_a_table_or_the_lines_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    write_log(dir.path());
    let text = stdout(&nrictl(dir.path(), &["events"]));
    let table = "2026-01-02T03:04:05.000Z  adjustment         10-a              web               \
                 pids.limit: 10 -> 20\n\
                 2026-01-02T04:04:05.000Z  refusal            20-b              web               \
                 no\n";
    assert_eq!(text, table);
    let lines = |arguments: &[&str]| stdout(&nrictl(dir.path(), arguments));
    assert_eq!(lines(&["events", "--json"]), format!("{FIRST}\n{SECOND}\n"));
    assert_eq!(lines(&["events", "--json", "--plugin", "b"]), format!("{SECOND}\n"));
    assert_eq!(lines(&["events", "--json", "--container", "other"]), "");
    let since = ["events", "--json", "--since", "2026-01-02T04:00:00Z"];
    assert_eq!(lines(&since), format!("{SECOND}\n"));
    let output = nrictl(dir.path(), &["events", "--since", "yesterday"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn events_follow_a_file_that_comes_later_and_one_that_is_rotated() {
    let dir = tempfile::tempdir().unwrap();
    let mut call = command(dir.path(), &["events", "--json", "--follow"]);
    let mut child = call.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let log = dir.path().join("audit.log");
    fs::write(&log, format!("{FIRST}\n")).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), FIRST);
    let mut file = fs::File::options().append(true).open(&log).unwrap();
    writeln!(file, "{SECOND}").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), SECOND);
    fs::rename(&log, dir.path().join("audit.log.1")).unwrap();
    fs::write(&log, format!("{FIRST}\n")).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), FIRST);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn explain_shows_a_container_by_field_as_text_and_as_json() {
    let dir = tempfile::tempdir().unwrap();
    write_log(dir.path());
    let text = stdout(&nrictl(dir.path(), &["explain", "web"]));
    assert!(
        text.contains("pids.limit  10      20     10-a  2026-01-02")
            && text.contains("refusal (update)"),
        "{text}"
    );
    let json = stdout(&nrictl(dir.path(), &["explain", "--json", "c1"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["fields"][0]["changes"][0]["by"], "10-a");
    let diff = stdout(&nrictl(dir.path(), &["explain", "--diff", "c1"]));
    assert!(diff.contains("-        \"limit\": 10\n+        \"limit\": 20\n"), "{diff}");
    let html = stdout(&nrictl(dir.path(), &["explain", "--html", "c1"]));
    for part in ["<!DOCTYPE html>", "<svg", "pids.limit", "10-a", "<td>no</td>", "</html>"] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert_eq!((&json["container"], &json["notes"][0]["message"]), (&"c1".into(), &"no".into()));
}

#[test]
fn a_missing_log_or_container_is_an_error_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    for arguments in [&["events"][..], &["explain", "c1"]] {
        let output = nrictl(dir.path(), arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("there is no audit log"), "{error}");
        assert_eq!(output.status.code(), Some(1));
    }
    write_log(dir.path());
    let output = nrictl(dir.path(), &["explain", "c9"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("the audit log has no container \"c9\""), "{error}");
}

/// A pipe that no process writes to would be waited for.
#[test]
fn no_name_and_no_file_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    write_log(dir.path());
    let fails = |arguments: &[&str], expected: &str| {
        let output = nrictl(dir.path(), arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(expected), "{error}");
    };
    fails(&["explain", ""], "the audit log has no container \"\"");
    let log = dir.path().join("audit.log");
    fs::remove_file(&log).unwrap();
    assert!(Command::new("mkfifo").arg(&log).status().unwrap().success());
    for arguments in [&["events"][..], &["explain", "c1"]] {
        fails(arguments, "audit.log: it is not a file");
    }
}
