//! Where programs are: ours, those of the machine, and the scripts of this folder.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A script of this folder.
pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// A program of the machine, in PATH or where administrators' programs are.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = [
        "/usr/local/sbin",
        "/usr/sbin",
        "/sbin",
        "/usr/local/bin",
        "/usr/bin",
        "/bin",
        "/usr/local/go/bin",
    ];
    std::env::split_paths(&path)
        .chain(more.map(PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// Writes a program, such as a script. Another process does so: what is open for writing here is so
/// in each child too that another thread makes at that moment, until it has become its own program,
/// and meanwhile the file could not be run ("Text file busy").
///
/// # Panics
/// It cannot be written.
pub fn write_program(path: &Path, text: &str) {
    let mut child =
        install(Path::new("/dev/stdin"), path).stdin(Stdio::piped()).spawn().expect("install");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("install reads");
    assert!(child.wait().expect("our child").success(), "{} is not written", path.display());
}

/// Copies a program, as [`write_program`].
///
/// # Panics
/// It cannot be copied.
pub fn copy_program(from: &Path, to: &Path) {
    assert!(
        install(from, to).status().expect("install").success(),
        "{} is not written",
        to.display()
    );
}

fn install(from: &Path, to: &Path) -> Command {
    let mut command = Command::new("install");
    command.arg("--mode=755").arg("--").arg(from).arg(to);
    command
}

/// The directory of what was built with this test: `target/debug`, say.
pub fn build_dir() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let dir = test.parent().expect("it is in a directory");
    let below = dir.ends_with("deps") || dir.ends_with("examples");
    let dir = if below { dir.parent().expect("it is in a directory") } else { dir };
    dir.to_owned()
}

/// `target`
pub(crate) fn target_dir() -> PathBuf {
    build_dir().parent().expect("the build is in target").to_owned()
}

/// The programs of an installation.
pub(crate) const NAMES: [&str; 4] = ["nri-container-runtime", "nrid", "nri-oci-hook", "nrictl"];

/// A program of the workspace.
pub(crate) fn ours(name: &str) -> PathBuf {
    existing(&build_dir().join(name))
}

/// The path, if there is a file.
///
/// # Panics
/// There is none.
pub(crate) fn existing(file: &Path) -> PathBuf {
    assert!(
        file.is_file(),
        "{} is missing: these tests run what `cargo build --workspace --bins --examples` builds",
        file.display()
    );
    file.to_owned()
}
