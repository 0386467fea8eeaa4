//! `nrictl dry-run` without root, and with programs in place of `nrid`.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

use rustix::process::geteuid;
use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::{Command, Output},
};
use tempfile::TempDir;

/// A directory with a copy of `nrictl`, which finds the `nrid` beside it: a script.
fn directory(nrid: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(dir.path().join("config.toml"), "").unwrap();
    fs::write(dir.path().join("script"), format!("#!/bin/sh\n{nrid}\n")).unwrap();
    let nrictl = Path::new(env!("CARGO_BIN_EXE_nrictl"));
    for (from, to) in [(nrictl, "nrictl"), (&dir.path().join("script"), "nrid")] {
        // By another process: a child that another test forks meanwhile would keep the copy open
        // for writing, and executing it would fail (ETXTBSY).
        let mut install = Command::new("install");
        install.args(["-m", "755"]).arg(from).arg(dir.path().join(to));
        assert!(install.status().unwrap().success());
    }
    dir
}

fn dry_run(dir: &Path, uid: u32, arguments: &[&str]) -> Output {
    let mut command = Command::new(dir.join("nrictl"));
    command.env_clear().arg("--config").arg(dir.join("config.toml"));
    command.arg("--state-dir").arg(dir.join("s")).arg("dry-run").args(arguments);
    if geteuid().is_root() {
        command.uid(uid).gid(uid);
    }
    command.output().unwrap()
}

fn failure(nrid: &str) -> (Option<i32>, String) {
    let dir = directory(nrid);
    let output = dry_run(dir.path(), 0, &["--container", "web"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    let without_dir = stderr.replace(&format!("{}/", dir.path().display()), "");
    (output.status.code(), without_dir)
}

#[test]
fn the_error_of_nrid_is_shown_and_one_that_is_older_is_named() {
    if !geteuid().is_root() {
        eprintln!("skipped: only root can make a dry run");
        return;
    }
    let (code, error) = failure("echo warned >&2; echo 'nrid: no such thing' >&2; exit 1");
    assert_eq!((code, error.as_str()), (Some(1), "warned\nnrictl: dry run: no such thing\n"));
    let unknown = "echo \"error: unexpected argument '--dry-run' found\" >&2; exit 2";
    let (code, error) = failure(unknown);
    let expected = "nrictl: nrid: does not know `--dry-run`; is it of this release?\n";
    assert_eq!((code, error.as_str()), (Some(1), expected));
    let (code, error) = failure("exit 1");
    assert_eq!((code, error.as_str()), (Some(1), "nrictl: dry run: exit status: 1\n"));
}

#[test]
fn a_dry_run_needs_root_and_a_bundle_or_a_container() {
    let dir = directory("exit 1");
    for arguments in [&[][..], &["--id", "a"], &["--bundle", "a", "--container", "b"]] {
        assert_eq!(dry_run(dir.path(), 0, arguments).status.code(), Some(2), "{arguments:?}");
    }
    let output = dry_run(dir.path(), 65534, &["--container", "web"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(5), "{stderr}");
    assert!(stderr.ends_with("in namespaces of their own: run nrictl as root\n"), "{stderr}");
}
