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
fn the_command_for_earlier_creations_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let later = SECOND.replace("\"creation\":1", "\"creation\":2");
    fs::write(dir.path().join("audit.log"), format!("{FIRST}\n{later}\n")).unwrap();
    let text = stdout(&nrictl(dir.path(), &["explain", "web"]));
    let advice = "1 earlier creation with this id: see `nrictl events --container c1`\n";
    assert!(text.ends_with(advice), "{text}");
    let events = stdout(&nrictl(dir.path(), &["events", "--container", "c1"]));
    assert_eq!(events.lines().count(), 2, "{events}");
}

/// The life of a container whose memory limit a plugin lowered, and which the kernel killed.
const LOWERED: &str = concat!(
    r#"{"time":"2026-01-02T03:04:05.000006Z","event":"consulted","container":"c1","name":"web","#,
    r#""engine":"docker","creation":1,"request":"create","plugins":["10-a"]}"#,
    "\n",
    r#"{"time":"2026-01-02T03:04:05.000006Z","event":"adjustment","plugin":"10-a","#,
    r#""container":"c1","name":"web","engine":"docker","creation":1,"request":"create","#,
    r#""changes":[{"field":"memory.limit","path":"/linux/resources/memory/limit","#,
    r#""before":67108864,"after":16777216}]}"#,
    "\n",
    r#"{"time":"2026-01-02T03:05:05.000006Z","event":"created","container":"c1","name":"web","#,
    r#""engine":"docker","creation":1}"#,
    "\n",
    r#"{"time":"2026-01-02T03:06:05.000006Z","event":"stopped","container":"c1","name":"web","#,
    r#""engine":"docker","creation":1,"message":"OOMKilled","exit_code":137}"#,
    "\n"
);

#[test]
fn explain_and_events_say_alike_how_a_container_ended() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("audit.log"), LOWERED).unwrap();
    for arguments in [&["events"][..], &["explain", "web"], &["explain", "--html", "web"]] {
        let text = stdout(&nrictl(dir.path(), arguments));
        assert!(text.contains("exit code 137, OOMKilled"), "{arguments:?}: {text}");
    }
}

#[test]
fn sizes_are_for_people_and_json_has_numbers() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("audit.log"), LOWERED).unwrap();
    let text = stdout(&nrictl(dir.path(), &["explain", "web"]));
    assert!(text.contains("memory.limit  64 MiB  16 MiB  10-a"), "{text}");
    assert!(!text.contains("16777216"), "{text}");
    let text = stdout(&nrictl(dir.path(), &["events"]));
    assert!(text.contains("memory.limit: 64 MiB -> 16 MiB"), "{text}");
    let page = stdout(&nrictl(dir.path(), &["explain", "--html", "web"]));
    assert!(page.contains("<code>16 MiB</code>"), "{page}");
    let diff = stdout(&nrictl(dir.path(), &["explain", "--diff", "web"]));
    assert!(diff.contains("+        \"limit\": 16777216 (16 MiB)\n"), "{diff}");
    let json = stdout(&nrictl(dir.path(), &["explain", "--json", "web"]));
    assert!(json.contains("\"after\":16777216"), "{json}");
}

#[test]
fn explain_says_that_the_engine_keeps_showing_what_it_requested() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("audit.log");
    fs::write(&log, LOWERED).unwrap();
    let expected = "docker requested memory.limit 64 MiB, 10-a set it to 16 MiB\n\
                    what docker itself shows (docker inspect) stays as it was requested\n";
    let text = stdout(&nrictl(dir.path(), &["explain", "web"]));
    assert!(text.contains(expected), "{text}");
    let json = stdout(&nrictl(dir.path(), &["explain", "--json", "web"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["fields"][0]["requested"], 67_108_864);
    // An update of the engine replaces the value of the plugin.
    let update = r#"{"time":"2026-01-02T03:05:06.000006Z","event":"update","container":"c1","name":"web","engine":"docker","creation":1,"request":"update","changes":[{"field":"memory.limit","path":"/linux/resources/memory/limit","before":16777216,"after":33554432}]}"#;
    fs::write(&log, format!("{LOWERED}{update}\n")).unwrap();
    let text = stdout(&nrictl(dir.path(), &["explain", "web"]));
    assert!(text.contains("32 MiB") && !text.contains("requested"), "{text}");
}

#[test]
fn events_are_selected_by_their_kind_and_by_the_time_until_which_they_happened() {
    let dir = tempfile::tempdir().unwrap();
    write_log(dir.path());
    let lines = |arguments: &[&str]| {
        stdout(&nrictl(dir.path(), &[&["events", "--json"], arguments].concat()))
    };
    assert_eq!(lines(&["--until", "2026-01-02T04:00:00Z"]), format!("{FIRST}\n"));
    let both = ["--since", "2026-01-02T03:30:00Z", "--until", "2026-01-02T04:00:00Z"];
    assert_eq!(lines(&both), "");
    assert_eq!(lines(&["--event", "refusal"]), format!("{SECOND}\n"));
    assert_eq!(lines(&["--event", "refusal,adjustment"]), format!("{FIRST}\n{SECOND}\n"));
    let output = nrictl(dir.path(), &["events", "--event", "refused"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && error.contains("refusal"), "{error}");
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
