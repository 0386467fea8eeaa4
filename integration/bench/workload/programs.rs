//! Compiles the C programs of this folder, and runs programs.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

/// Path of a file of this crate.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Compiles a C program of the folder `c` statically.
///
/// # Panics
/// The compiler is missing or fails.
pub fn compile(name: &str, output: PathBuf, options: &[&str]) -> PathBuf {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| OsString::from("cc"));
    let mut command = Command::new(compiler);
    command.args(["-O2", "-static", "-o"]).arg(&output).args(options);
    run(command.arg(source("c").join(format!("{name}.c"))));
    output
}

/// Runs a command that must succeed.
///
/// # Panics
/// The command fails.
pub fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(status.success(), "{command:?}: {status}");
}
