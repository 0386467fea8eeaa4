//! `nrictl` of a user who is not root, as in `sudo -u nobody nrictl status`.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

use rustix::process::geteuid;
use std::{
    fs,
    os::unix::{
        fs::{DirBuilderExt, PermissionsExt},
        process::CommandExt,
    },
    path::Path,
    process::{Command, Output},
};

/// A user without rights.
const NOBODY: u32 = 65534;

/// Runs a copy of `nrictl`, which the user can reach, as this user.
fn nrictl(dir: &Path, uid: u32, arguments: &[&str]) -> Output {
    let program = dir.join("nrictl");
    if !program.exists() {
        // By another process: a child that another test forks meanwhile would keep the copy open
        // for writing, and executing it would fail (ETXTBSY).
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_nrictl")).arg(&program).status();
        assert!(copied.unwrap().success());
    }
    let mut command = Command::new(program);
    command.env_clear().arg("--config").arg(dir.join("config.toml")).args(arguments);
    if geteuid().is_root() {
        command.uid(uid).gid(uid);
    }
    command.output().unwrap()
}

/// A directory that all users can read, with an empty configuration.
fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(dir.path().join("config.toml"), "").unwrap();
    dir
}

fn check_refused(output: &Output, why: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(stderr.contains(why) && stderr.ends_with(": run nrictl as root\n"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn a_state_directory_of_root_is_not_an_nrid_that_is_not_running() {
    if !geteuid().is_root() {
        println!("skipped: only root can create a state directory of root");
        return;
    }
    let dir = directory();
    let state = dir.path().join("s");
    fs::DirBuilder::new().mode(0o700).create(&state).unwrap();
    let state_dir = state.to_str().unwrap();
    let why = format!("cannot connect to {state_dir}/");
    for command in ["status", "verify", "reload", "stop", "restart", "start", "doctor"] {
        let output = nrictl(dir.path(), NOBODY, &["--state-dir", state_dir, command]);
        check_refused(&output, &why);
        assert!(output.stdout.is_empty(), "{output:?}");
    }
    for command in [&["events"][..], &["explain", "c1"]] {
        let output = nrictl(dir.path(), NOBODY, &[&["--state-dir", state_dir], command].concat());
        check_refused(&output, &format!("cannot read {state_dir}/audit.log"));
    }
    let archive = dir.path().join("archive");
    let archive = archive.to_str().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let bundle = ["--state-dir", state_dir, "support-bundle", "--output", archive];
    let output = nrictl(dir.path(), NOBODY, &bundle);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(!Path::new(archive).exists());
    let output = nrictl(dir.path(), 0, &["--state-dir", state_dir, "status"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}

#[test]
fn a_configuration_that_cannot_be_read_may_name_the_state_directory() {
    if !geteuid().is_root() {
        println!("skipped: only root can create a file of root");
        return;
    }
    let dir = directory();
    let config = dir.path().join("config.toml");
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
    let output = nrictl(dir.path(), NOBODY, &["status"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(stderr.contains("which names the state directory, cannot be read"), "{stderr}");
}

/// A user may have an nrid of their own, for a rootless engine.
#[test]
fn the_own_state_directory_of_a_user_needs_no_root() {
    let dir = directory();
    let state = dir.path().join("s");
    fs::create_dir(&state).unwrap();
    let uid = if geteuid().is_root() { NOBODY } else { geteuid().as_raw() };
    std::os::unix::fs::chown(&state, Some(uid), None).unwrap();
    let output = nrictl(dir.path(), uid, &["--state-dir", state.to_str().unwrap(), "status"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}

#[test]
fn an_installation_that_may_not_write_its_files_needs_root() {
    if !geteuid().is_root() {
        println!("skipped: only root can create directories of root");
        return;
    }
    let dir = directory();
    let root = dir.path().join("root");
    for path in ["etc", "usr/local/bin"] {
        fs::create_dir_all(root.join(path)).unwrap();
    }
    let wrapper = root.join("usr/local/bin/nri-container-runtime");
    fs::write(&wrapper, "").unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let arguments = ["install", "docker", "--root", root.to_str().unwrap()];
    for (uid, code) in [(NOBODY, 5), (0, 0)] {
        let output = nrictl(dir.path(), uid, &arguments);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert_eq!(root.join("etc/docker/daemon.json").exists(), code == 0);
    }
}

/// `/run` is another one here, so that the state directory of root is where it is by default.
#[test]
fn the_audit_log_of_root_needs_root_as_its_nrid_does() {
    if !geteuid().is_root() {
        println!("skipped: only root can mount");
        return;
    }
    let dir = directory();
    // Copies the program.
    assert!(nrictl(dir.path(), NOBODY, &["--version"]).status.success());
    let script = "mount -t tmpfs tmpfs /run && mkdir -m 700 /run/nri-container-runtime && \
                  cd / && exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"";
    for arguments in [&["status"][..], &["explain", "c1"], &["events"], &["events", "--follow"]] {
        let mut command = Command::new("unshare");
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.args(["-m", "sh", "-c", script, "sh"]).arg(dir.path().join("nrictl"));
        let output = command.args(arguments).output().unwrap();
        check_refused(&output, "only root can reach that of root (/run/nri-container-runtime)");
    }
}

#[test]
fn the_containers_of_roots_engines_need_root() {
    if !geteuid().is_root() {
        println!("skipped: only root can run a program as another user");
        return;
    }
    let output = nrictl(directory().path(), NOBODY, &["containers", "--all-runtimes"]);
    check_refused(&output, "only root can see those of root's engines");
}
