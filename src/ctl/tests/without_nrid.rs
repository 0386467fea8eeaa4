//! `nrictl` without a running `nrid`, or with an invalid configuration.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

use rustix::fs::FlockOperation;
use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

fn nrictl(dir: &Path, command: &str) -> Output {
    let mut call = Command::new(env!("CARGO_BIN_EXE_nrictl"));
    call.arg("--config")
        .arg(dir.join("config.toml"))
        .arg("--state-dir")
        .arg(dir.join("s"))
        .arg(command);
    call.output().unwrap()
}

#[test]
fn commands_that_need_a_running_nrid_exit_with_code_3() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.toml"), "").unwrap();
    for command in ["status", "reload", "verify"] {
        let output = nrictl(dir.path(), command);
        assert_eq!(output.status.code(), Some(3), "{command}: {output:?}");
    }
}

#[test]
fn doctor_reports_an_invalid_configuration_once() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.toml"), "nonsense = 1\n").unwrap();
    let output = nrictl(dir.path(), "doctor");
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    let found: Vec<_> = stdout.lines().filter(|l| l.contains("nonsense")).collect();
    let begin = format!("PROBLEM configuration  {}/config.toml: line 1", dir.path().display());
    assert!(matches!(&*found, [line] if line.starts_with(&begin)), "{stdout}");
}

#[test]
fn doctor_reports_values_that_a_start_corrects() {
    let dir = tempfile::tempdir().unwrap();
    let text = "[log]\nlevel = 'loud'\nfile = 'nrid.log'\n";
    fs::write(dir.path().join("config.toml"), text).unwrap();
    let output = nrictl(dir.path(), "doctor");
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    for mistake in
        ["line 2, column 9: \"loud\" is not a level", "line 3, column 8: \"nrid.log\" is not an"]
    {
        let begin = format!("PROBLEM configuration  {}/config.toml: ", dir.path().display());
        let is_mistake = |l: &&str| l.starts_with(&begin) && l.contains(mistake);
        assert_eq!(stdout.lines().filter(is_mistake).count(), 1, "{stdout}");
    }
}

/// A process that holds the lock of the state directory, like an nrid whose sockets were removed.
/// Killed when it is dropped.
struct LockHolder(Child);

impl LockHolder {
    fn new(dir: &Path) -> Self {
        fs::create_dir(dir.join("s")).unwrap();
        let lock = dir.join("s/nrid.lock");
        // `-F`: flock becomes `sleep`, which keeps the lock.
        let mut command = Command::new("flock");
        let holder = Self(command.arg("-F").arg(&lock).args(["sleep", "1000"]).spawn().unwrap());
        let is_locked = || {
            let Ok(file) = fs::File::open(&lock) else { return false };
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_err()
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
    for command in ["status", "reload", "verify"] {
        let output = nrictl(dir.path(), command);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{command}: {stderr}");
        assert!(stderr.contains(&name) && stderr.contains("does not listen on"), "{stderr}");
    }
    assert!(holder.0.try_wait().unwrap().is_none());
    let output = nrictl(dir.path(), "stop");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains(&name) && stderr.contains("SIGTERM"), "{stderr}");
    assert!(holder.0.try_wait().unwrap().is_some(), "stop succeeded, but the process still runs");
    // `stop` also succeeds if no nrid runs.
    assert!(nrictl(dir.path(), "stop").status.success());
}

/// A process that `doctor` takes for a dockerd with this `daemon.json`: a shell called `dockerd`.
struct FakeDockerd(Child);

impl FakeDockerd {
    fn start(dir: &Path, daemon_json: &str) -> Self {
        let (program, file) = (dir.join("dockerd"), dir.join("daemon.json"));
        fs::copy("/bin/sh", &program).unwrap();
        fs::write(&file, daemon_json).unwrap();
        let mut command = Command::new(program);
        command.args(["-c", "echo ready; read line", "dockerd", "--config-file"]).arg(file);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // The kernel sets the process's name and command line after `spawn` may have returned.
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut String::new()).unwrap();
        Self(child)
    }
}

impl Drop for FakeDockerd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn doctor_reports_docker_whose_own_nri_is_on() {
    let dir = tempfile::tempdir().unwrap();
    let on = r#"{"nri-opts": {"enable": true, "socket-path": "/run/docker-nri.sock"}}"#;
    for (config, daemon_json, level, text, advice) in [
        (
            "",
            on,
            "note",
            "both ours and its own NRI adapt its containers",
            "Plugins connected to /run/docker-nri.sock or launched from \
             /usr/libexec/docker/nri-plugins",
        ),
        ("[engines]\ndocker = 'engine'\n", on, "note", "its own NRI adapts its containers", ""),
        ("[engines]\ndocker = 'engine'\n", "{}", "problem", "no NRI adapts its containers", ""),
        ("", "{}", "ok", "ours adapts the containers", ""),
    ] {
        fs::write(dir.path().join("config.toml"), config).unwrap();
        let dockerd = FakeDockerd::start(dir.path(), daemon_json);
        let output = Command::new(env!("CARGO_BIN_EXE_nrictl"))
            .arg("--config")
            .arg(dir.path().join("config.toml"))
            .arg("--state-dir")
            .arg(dir.path().join("s"))
            .args(["doctor", "--json"])
            .output()
            .unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let process = format!("(process {})", dockerd.0.id());
        let findings = report["findings"].as_array().unwrap();
        let found = findings
            .iter()
            .find(|f| f["about"] == "in charge" && f["text"].as_str().unwrap().contains(&process))
            .unwrap_or_else(|| panic!("{report}"));
        assert_eq!(found["level"], level, "{found}");
        assert!(found["text"].as_str().unwrap().contains(text), "{found}");
        assert!(found["advice"].as_str().unwrap_or_default().contains(advice), "{found}");
    }
}
