//! Runs commands in the mount namespace of the runtimes. On a machine with hybrid cgroups this is
//! the one that `cgroups.sh` creates, since crun and hugepage limits work only there; elsewhere it
//! is the test's own.
//!
//! A child process of the test program holds the namespace open. It exits when the test program
//! does, since its stdin is closed then, and `cgroups.sh` restores the controllers.

use crate::{is_root, script};
use std::{
    ffi::OsStr,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{ChildStdin, Command, Stdio},
    sync::OnceLock,
};

/// The child process that holds the namespace open.
struct Holder {
    pid: u32,
    /// The process exits when this pipe is closed.
    _stdin: ChildStdin,
}

/// Returns a command that runs in the namespace, with `/` as its working directory.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = match holder() {
        Some(holder) => {
            let mut command = Command::new("nsenter");
            command.arg(format!("--mount=/proc/{}/ns/mnt", holder.pid)).arg("--").arg(program);
            command
        }
        None => Command::new(program),
    };
    command.current_dir("/");
    command
}

/// Returns a command in the namespace that runs the shell commands `first` and then executes
/// `inner`, so that what entering the namespace would undo, such as the working directory, stays.
pub fn after(first: &str, inner: &Command) -> Command {
    let mut words: Vec<_> = std::iter::once(inner.get_program()).chain(inner.get_args()).collect();
    if holder().is_some() {
        let end = words.iter().position(|word| *word == "--").map_or(0, |at| at + 1);
        words.drain(..end);
    }
    let mut shell = command("sh");
    shell.args(["-c", &format!("{first}; exec \"$@\""), "sh"]).args(words);
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// Path of the namespace's root directory, for processes outside of it.
pub(crate) fn root() -> PathBuf {
    match holder() {
        Some(holder) => format!("/proc/{}/root", holder.pid).into(),
        None => "/".into(),
    }
}

fn holder() -> Option<&'static Holder> {
    static HOLDER: OnceLock<Option<Holder>> = OnceLock::new();
    HOLDER.get_or_init(|| if is_root() && is_hybrid() { start() } else { None }).as_ref()
}

fn is_hybrid() -> bool {
    Path::new("/sys/fs/cgroup/unified/cgroup.controllers").exists()
}

/// Creates the namespace. Returns `None` if that fails: then tests that need it are skipped with
/// the error of the runtime.
fn start() -> Option<Holder> {
    let mut child = Command::new(script("cgroups.sh"))
        .args(["sh", "-c", "echo $$; exec cat >/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // A process group of its own, so that it restores the controllers even after an interrupt.
        .process_group(0)
        .spawn()
        .ok()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take()?).read_line(&mut line).ok()?;
    let pid: u32 = line.trim().parse().ok()?;
    Some(Holder { pid, _stdin: child.stdin.take()? })
}
