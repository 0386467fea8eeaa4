//! What `nrictl` says of an `nrid` that does not run, or of a configuration that is wrong.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn nrictl(dir: &Path, command: &str) -> Output {
    let mut call = Command::new(env!("CARGO_BIN_EXE_nrictl"));
    call.arg("--config").arg(dir.join("config.toml")).arg("--state-dir").arg(dir.join("s")).arg(command);
    call.output().unwrap()
}

#[test]
fn whoever_needs_one_that_runs_has_an_exit_code_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.toml"), "").unwrap();
    for command in ["status", "reload", "verify"] {
        let output = nrictl(dir.path(), command);
        assert_eq!(output.status.code(), Some(3), "{command}: {output:?}");
    }
}
