//! `nrictl` without a running `nrid`, or with an invalid configuration.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

use nri_control::{Reply, Status, Versioned, receive, send};
use nri_files::CONTROL_SOCKET;
use rustix::fs::FlockOperation;
use std::{
    fs,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::Path,
    process::{Child, Command, Output},
    time::{Duration, Instant},
};

fn nrictl(dir: &Path, command: &[&str]) -> Output {
    let mut call = Command::new(env!("CARGO_BIN_EXE_nrictl"));
    call.arg("--config")
        .arg(dir.join("config.toml"))
        .arg("--state-dir")
        .arg(dir.join("s"))
        .args(command);
    call.output().unwrap()
}

#[test]
fn commands_that_need_a_running_nrid_exit_with_code_3() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.toml"), "").unwrap();
    for command in [
        &["status"][..],
        &["plugins"],
        &["log-level"],
        &["log-level", "debug"],
        &["ready"],
        &["reload"],
        &["verify"],
        &["containers"],
        &["pods"],
        &["inspect", "c1"],
        &["stats", "c1"],
        &["top", "--once"],
    ] {
        let output = nrictl(dir.path(), command);
        assert_eq!(output.status.code(), Some(3), "{command:?}: {output:?}");
    }
}

/// A process that holds the lock of the state directory, like an nrid whose sockets were removed.
/// Killed when it is dropped.
struct LockHolder(Child);

impl LockHolder {
    fn new(dir: &Path) -> Self {
        fs::create_dir(dir.join("s")).unwrap();
        let lock = dir.join("s/nrid.lock");
        // Only a process called nrid is one. Copied by another process: a child that another test
        // forks meanwhile would keep the copy open for writing, and could not execute it.
        let program = dir.join("nrid");
        assert!(Command::new("cp").arg("/bin/sleep").arg(&program).status().unwrap().success());
        // `-F`: flock becomes the program, which keeps the lock.
        let mut command = Command::new("flock");
        command.arg("-F").arg(&lock).arg(&program).arg("1000");
        let holder = Self(command.spawn().unwrap());
        let name = format!("/proc/{}/comm", holder.0.id());
        let is_locked = || {
            let Ok(file) = fs::File::open(&lock) else { return false };
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_err()
                && fs::read_to_string(&name).unwrap_or_default().trim() == "nrid"
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is_locked() {
            assert!(Instant::now() < deadline, "flock did not lock {}", lock.display());
            std::thread::sleep(Duration::from_millis(5));
        }
        holder
    }
}

impl Drop for LockHolder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_nrid_that_does_not_listen_is_found_by_its_lock() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.toml"), "").unwrap();
    let mut holder = LockHolder::new(dir.path());
    let name = format!("nrid (pid {})", holder.0.id());
    for command in ["status", "reload", "verify", "containers"] {
        let output = nrictl(dir.path(), &[command]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{command}: {stderr}");
        assert!(stderr.contains(&name) && stderr.contains("does not listen on"), "{stderr}");
    }
    assert!(holder.0.try_wait().unwrap().is_none());
    let output = nrictl(dir.path(), &["stop"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains(&name) && stderr.contains("SIGTERM"), "{stderr}");
    assert!(holder.0.try_wait().unwrap().is_some(), "stop succeeded, but the process still runs");
    // `stop` also succeeds if no nrid runs.
    assert!(nrictl(dir.path(), &["stop"]).status.success());
}

/// An nrid of an old release: it closes the connection after a request that it does not know, and
/// replies to a request for its status.
fn old_nrid(dir: &Path) {
    fs::create_dir(dir.join("s")).unwrap();
    let listener = UnixListener::bind(dir.join("s").join(CONTROL_SOCKET)).unwrap();
    let status = Status { version: "0.0.9".to_owned(), pid: 4711, ..Status::default() };
    let reply = Versioned::ours(Reply::Status(Box::new(status)));
    let reply = serde_json::to_vec(&reply).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let Ok((request, _)) = receive(&stream) else { continue };
            if String::from_utf8(request).unwrap().contains("status") {
                send(&stream, &reply, &[]).unwrap();
            }
        }
    });
}

#[test]
fn an_nrid_that_does_not_know_a_request_is_named_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.toml"), "").unwrap();
    old_nrid(dir.path());
    for command in [
        &["containers"][..],
        &["pods"],
        &["inspect", "c1"],
        &["stats", "c1"],
        &["log-level", "debug"],
    ] {
        let output = nrictl(dir.path(), command);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{command:?}: {stderr}");
        let parts = ["nrid 0.0.9 (pid 4711) is older than this nrictl", "`nrictl restart`"];
        assert!(parts.iter().all(|part| stderr.contains(part)), "{stderr}");
    }
}

#[test]
fn ps_is_containers_and_version_has_all_programs() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.toml"), "[runtime]\npath = \"/nonexistent/runc\"\n").unwrap();
    assert_eq!(nrictl(dir.path(), &["ps"]).status.code(), Some(3));
    let text = |arguments: &[&str]| {
        let output = nrictl(dir.path(), arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let version = env!("CARGO_PKG_VERSION");
    let found = text(&["version"]);
    let expected = format!("nrictl   {version}\nnrid     not running\nruntime  ");
    assert!(found.starts_with(&expected) && found.contains("/nonexistent/runc"), "{found}");
    old_nrid(dir.path());
    let runtime = dir.path().join("runc");
    fs::write(&runtime, "#!/bin/sh\necho runc version 9.8.7\necho spec: 1.2.0\n").unwrap();
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(dir.path().join("config.toml"), format!("[runtime]\npath = {runtime:?}\n")).unwrap();
    let runtime = runtime.display();
    assert_eq!(
        text(&["version"]),
        format!("nrictl   {version}\nnrid     0.0.9\nruntime  runc version 9.8.7 ({runtime})\n")
    );
    let json: serde_json::Value = serde_json::from_str(&text(&["version", "--json"])).unwrap();
    assert_eq!((&json["nrictl"], &json["nrid"]), (&version.into(), &"0.0.9".into()));
    assert_eq!(json["runtime"]["path"], runtime.to_string());
    assert_eq!(json["runtime"]["version"], "runc version 9.8.7");
}
