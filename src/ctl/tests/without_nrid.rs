//! `nrictl` without a running `nrid`, or with an invalid configuration.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

use rustix::fs::FlockOperation;
use std::{
    fs,
    path::Path,
    process::{Child, Command, Output},
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
    for command in ["status", "plugins", "ready", "reload", "verify"] {
        let output = nrictl(dir.path(), command);
        assert_eq!(output.status.code(), Some(3), "{command}: {output:?}");
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
