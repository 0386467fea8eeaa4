//! `nrictl logs`, with a log file and with a journal.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

use nri_control::{Reply, Status, Versioned, receive, send};
use nri_files::CONTROL_SOCKET;
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::Path,
    process::{Child, Command, Output, Stdio},
};
use tempfile::TempDir;

const LINES: &str = "2026-01-02T03:04:05.000001Z  INFO nrid starts\n\
    2026-01-02T03:05:05.000002Z  INFO 10-a: hello\n\
    2026-01-02T03:06:05.000003Z  WARN plugin failed plugin=10-a\n\
    2026-01-02T03:07:05.000004Z  INFO 20-b: 10-a: bye\n";

fn site(log: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.toml"), "").unwrap();
    fs::create_dir(dir.path().join("s")).unwrap();
    if !log.is_empty() {
        fs::write(dir.path().join("s/nrid.log"), log).unwrap();
    }
    dir
}

fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nrictl"));
    command.arg("--config").arg(dir.join("config.toml")).arg("--state-dir").arg(dir.join("s"));
    command.arg("logs").args(arguments);
    command
}

fn logs(dir: &Path, arguments: &[&str]) -> Output {
    command(dir, arguments).output().unwrap()
}

fn text(dir: &Path, arguments: &[&str]) -> String {
    let output = logs(dir, arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_file_is_shown_without_an_nrid_and_filtered() {
    let dir = site(LINES);
    let dir = dir.path();
    assert_eq!(text(dir, &[]), LINES);
    assert_eq!(
        text(dir, &["10-a"]),
        "2026-01-02T03:05:05.000002Z  INFO hello\n\
         2026-01-02T03:06:05.000003Z  WARN plugin failed plugin=10-a\n"
    );
    assert_eq!(text(dir, &["b"]), "2026-01-02T03:07:05.000004Z  INFO 10-a: bye\n");
    let first: String = LINES.split_inclusive('\n').take(2).collect();
    assert_eq!(text(dir, &["--until", "2026-01-02T03:06:00Z"]), first);
    let none = logs(dir, &["c"]);
    assert!(none.status.success() && none.stdout.is_empty(), "{none:?}");
    let stderr = String::from_utf8(none.stderr).unwrap();
    assert!(stderr.contains("has no line of c;"), "{stderr}");
    for (wanted, meant) in [("10-b", "10-a"), ("20-bb", "20-b")] {
        let stderr = String::from_utf8(logs(dir, &[wanted]).stderr).unwrap();
        let hint = format!("no line of {wanted} (did you mean {meant}?); the output");
        assert!(stderr.contains(&hint), "{stderr}");
    }
    let unmatched = logs(dir, &["10-a", "--until", "2026-01-02T03:04:06Z"]);
    let stderr = String::from_utf8(unmatched.stderr).unwrap();
    assert!(stderr.contains("has no line of 10-a;"), "{stderr}");
    let last: String = LINES.split_inclusive('\n').skip(2).collect();
    assert_eq!(text(dir, &["-n", "2"]), last);
    assert_eq!(text(dir, &["-n", "0"]), "");
    assert_eq!(text(dir, &["--since", "2026-01-02T03:06:00Z"]), last);
    let json = text(dir, &["-n", "1", "--json"]);
    assert_eq!(
        serde_json::from_str::<Value>(&json).unwrap(),
        json!({
            "time": "2026-01-02T03:07:05.000004Z", "level": "INFO", "plugin": "20-b",
            "message": "10-a: bye"
        })
    );
}

#[test]
fn a_log_that_does_not_exist_is_an_error_that_names_the_journal() {
    let dir = site("");
    let output = logs(dir.path(), &[]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    let parts = ["s/nrid.log", "`journalctl -t nrid`"];
    assert!(parts.iter().all(|part| stderr.contains(part)), "{stderr}");
}

/// A `nrictl logs --follow`, killed when it is dropped.
struct Followed(Child, BufReader<std::process::ChildStdout>);

impl Followed {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self(child, output)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn followed_lines_are_shown_across_a_rotation() {
    let dir = site(LINES);
    let path = dir.path().join("s/nrid.log");
    let mut followed = Followed::start(command(dir.path(), &["--follow", "-n", "1", "b"]));
    assert_eq!(followed.line(), "2026-01-02T03:07:05.000004Z  INFO 10-a: bye\n");
    let mut file = File::options().append(true).open(&path).unwrap();
    write!(file, "2026-01-02T03:08:05.000004Z  INFO 10-a: x\n{}", line("second")).unwrap();
    assert_eq!(followed.line(), shown("second"));
    fs::rename(&path, path.with_extension("log.1")).unwrap();
    fs::write(&path, line("third")).unwrap();
    assert_eq!(followed.line(), shown("third"));
}

fn line(message: &str) -> String {
    format!("2026-01-02T03:09:05.000004Z  INFO 20-b: {message}\n")
}

/// Returns how a line of one plugin is shown.
fn shown(message: &str) -> String {
    format!("2026-01-02T03:09:05.000004Z  INFO {message}\n")
}

/// An nrid with this status.
fn nrid(dir: &Path, status: Status) {
    let listener = UnixListener::bind(dir.join("s").join(CONTROL_SOCKET)).unwrap();
    let reply = Versioned::ours(Reply::Status(Box::new(status)));
    let reply = serde_json::to_vec(&reply).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            while receive(&stream).is_ok() && send(&stream, &reply, &[]).is_ok() {}
        }
    });
}

#[test]
fn without_a_file_the_journal_is_shown_and_followed_from_where_it_ended() {
    let dir = site("");
    // It writes to standard error, or to the journal, of which an older one did not tell.
    nrid(dir.path(), Status::default());
    // The first line was sent to journald, the others were written to standard error.
    let mut entries = Vec::new();
    for (number, line) in LINES.lines().enumerate() {
        let mut entry = json!({
            "__CURSOR": format!("s=12;i={number}"), "__REALTIME_TIMESTAMP": "1767323045000001",
            "MESSAGE": line, "PRIORITY": "6", "_TRANSPORT": "stdout",
        });
        if number == 0 {
            entry["MESSAGE"] = Value::from(b"nrid starts".to_vec());
            entry["_TRANSPORT"] = json!("journal");
        }
        writeln!(entries, "{entry}").unwrap();
    }
    fs::write(dir.path().join("lines"), entries).unwrap();
    // Prints the arguments, and lines as the journal does.
    let script = "#!/bin/sh\necho \"$*\" >>\"$SITE/calls\"\ncase \" $* \" in\n\
        *' --follow '*) echo '{\"MESSAGE\":\"20-b: added\",\"_TRANSPORT\":\"journal\",\
        \"__REALTIME_TIMESTAMP\":\"1767323045000001\"}'; exec sleep 100 ;;\n\
        *) cat \"$SITE/lines\" ;;\nesac\n";
    let program = dir.path().join("journalctl");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let with_journal = |arguments: &[&str]| {
        let mut command = command(dir.path(), arguments);
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", dir.path().display())).env("SITE", dir.path());
        command
    };
    let output = with_journal(&[]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), LINES);
    let mut followed = Followed::start(with_journal(&["b", "--follow"]));
    assert_eq!(followed.line(), "2026-01-02T03:07:05.000004Z  INFO 10-a: bye\n");
    assert_eq!(followed.line(), "2026-01-02T03:04:05.000001Z  INFO added\n");
    let calls = fs::read_to_string(dir.path().join("calls")).unwrap();
    let last = calls.lines().last().unwrap();
    assert!(last.contains("--identifier nrid"), "{calls}");
    assert!(last.contains("--follow --after-cursor=s=12;i=3"), "{calls}");

    let output = command(dir.path(), &[]).env("PATH", "/nonexistent").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("journalctl cannot be run"), "{stderr}");
    fs::write(&program, "#!/bin/sh\nexit 3\n").unwrap();
    let output = with_journal(&[]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("journalctl failed: exit status: 3"), "{stderr}");
}

#[test]
fn lines_that_journald_does_not_receive_are_named() {
    let dir = site(LINES);
    let file = dir.path().join("s/nrid.log");
    let status = Status {
        log: Some(file.as_os_str().into()),
        log_is_journal: true,
        journal_error: Some("hangs".into()),
        ..Status::default()
    };
    nrid(dir.path(), status);
    let program = dir.path().join("journalctl");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let output = command(dir.path(), &[]).env("PATH", dir.path()).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    let expected =
        format!("journald does not receive (hangs); newer lines are in {}", file.display());
    assert!(stderr.contains(&expected), "{stderr}");
}
