//! Paths of the programs under test, of system programs, and of the scripts of this crate.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Path of a script of this crate.
pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Finds a system program in PATH, or else in directories that a user's PATH may lack.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let fallbacks = [
        "/usr/local/sbin",
        "/usr/sbin",
        "/sbin",
        "/usr/local/bin",
        "/usr/bin",
        "/bin",
        "/usr/local/go/bin",
    ];
    std::env::split_paths(&path)
        .chain(fallbacks.map(PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// Writes an executable file, such as a script, through a child process, `install`. If this process
/// wrote it, a child that another thread forks meanwhile would inherit the writable descriptor, and
/// until that child executes its program, running the file would fail ("Text file busy").
///
/// # Panics
/// The file cannot be written.
pub fn write_program(path: &Path, text: &str) {
    let mut child = install(Path::new("/dev/stdin"), path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("the program `install` exists");
    child
        .stdin
        .take()
        .expect("stdin is a pipe")
        .write_all(text.as_bytes())
        .expect("install reads its stdin");
    assert!(
        child.wait().expect("wait for the child process").success(),
        "install cannot write {}",
        path.display()
    );
}

/// Copies a program through a child process, for the reason given at [`write_program`].
///
/// # Panics
/// The program cannot be copied.
pub fn copy_program(from: &Path, to: &Path) {
    assert!(
        install(from, to).status().expect("the program `install` exists").success(),
        "install cannot write {}",
        to.display()
    );
}

fn install(from: &Path, to: &Path) -> Command {
    let mut command = Command::new("install");
    command.arg("--mode=755").arg("--").arg(from).arg(to);
    command
}

/// Directory of the programs built with this test, such as `target/debug`.
pub fn build_dir() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let dir = test.parent().expect("the test is in a directory");
    let is_subfolder = dir.ends_with("deps") || dir.ends_with("examples");
    let dir = if is_subfolder { dir.parent().expect("the test is in a directory") } else { dir };
    dir.to_owned()
}

/// Path of Cargo's `target` directory.
pub(crate) fn target_dir() -> PathBuf {
    build_dir().parent().expect("the build is in target").to_owned()
}

/// The program that runs WebAssembly plugins.
pub(crate) const WASM_HOST: &str = "nri-wasm-host";

/// Names of the programs of an installation.
pub(crate) const NAMES: [&str; 5] =
    ["nri-container-runtime", "nrid", "nri-oci-hook", "nrictl", WASM_HOST];

/// Path of a program of the workspace.
pub(crate) fn built(name: &str) -> PathBuf {
    existing(&build_dir().join(name))
}

/// Returns the path of a file that must exist.
///
/// # Panics
/// The file does not exist.
pub(crate) fn existing(file: &Path) -> PathBuf {
    assert!(
        file.is_file(),
        "{} is missing: build it with `cargo build --workspace --bins --examples`",
        file.display()
    );
    file.to_owned()
}
