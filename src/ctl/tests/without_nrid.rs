//! `nrictl` without a running `nrid`, or with an invalid configuration.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
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
