//! Where programs are run: on a machine with hybrid cgroups in the mount namespace that
//! `cgroups.sh` makes, since crun and hugepage limits work only there; elsewhere where we are.
//!
//! One process of this test program holds the namespace open. It ends with us, because its stdin
//! does, and the controllers are given back.

use crate::{is_root, script};
use std::{
    ffi::OsStr,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{ChildStdin, Command, Stdio},
    sync::OnceLock,
};

struct Holder {
    pid: u32,
    /// It ends when this is closed.
    _stdin: ChildStdin,
}

/// A command that runs there. Its working directory is `/`.
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

/// The same command, called by a shell there after it has done `first`. What entering the namespace
/// would undo, such as the working directory, lasts.
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

/// The root directory there, as it can be reached from here.
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

/// `None` if the namespace cannot be made: then what needs it is skipped with the runtime's own
/// words.
fn start() -> Option<Holder> {
    let mut child = Command::new(script("cgroups.sh"))
        .args(["sh", "-c", "echo $$; exec cat >/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // Its own group: it gives the controllers back even if the tests are interrupted.
        .process_group(0)
        .spawn()
        .ok()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take()?).read_line(&mut line).ok()?;
    let pid: u32 = line.trim().parse().ok()?;
    Some(Holder { pid, _stdin: child.stdin.take()? })
}
