//! Runs commands in the mount namespace of the runtimes. On a machine with hybrid cgroups,
//! `cgroups.sh` creates that namespace, because crun and hugepage limits do not work outside of it.
//! On a machine where this project is installed, the namespace hides the installed programs and
//! configuration, whose paths are fixed. Other machines need no separate namespace: commands run in
//! the namespace of the test program.
//!
//! A child process holds the namespace open. When the test program exits, the stdin of the child is
//! closed, so that the child exits, too, and `cgroups.sh` restores the controllers.

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

/// Returns a command that enters the namespace, runs the shell commands `first`, and executes
/// `inner`. What a process loses when it enters the namespace, such as the working directory, can
/// be set by `first`.
pub fn command_after(first: &str, inner: &Command) -> Command {
    let mut words: Vec<_> = std::iter::once(inner.get_program()).chain(inner.get_args()).collect();
    if holder().is_some() {
        // The shell has already entered the namespace: remove `nsenter ... --` from `inner`.
        let nsenter = words.iter().position(|word| *word == "--").map_or(0, |end| end + 1);
        words.drain(..nsenter);
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

/// Path of the namespace's root directory, as seen by processes outside of the namespace.
pub(crate) fn root() -> PathBuf {
    match holder() {
        Some(holder) => format!("/proc/{}/root", holder.pid).into(),
        None => "/".into(),
    }
}

/// Returns the holder of the namespace, which the first call creates; `None` if commands run in
/// the namespace of the test program.
fn holder() -> Option<&'static Holder> {
    static HOLDER: OnceLock<Option<Holder>> = OnceLock::new();
    HOLDER
        .get_or_init(|| {
            let is_needed = is_root() && (has_hybrid_cgroups() || is_installed());
            is_needed.then(create_namespace).flatten()
        })
        .as_ref()
}

/// Shell commands that hide the files of an installation by mounts. The wrapper would otherwise
/// find the installed configuration and break-glass file, and the installed `nrid` and
/// `nri-oci-hook` where a test has removed its own.
const COVER: &str = "for dir in /etc/nri-container-runtime /usr/libexec/nri-container-runtime; do \
    [ ! -d $dir ] || mount -t tmpfs -o mode=755 covered $dir || exit 1; done; \
    for dir in $(echo $SEARCHED | tr : ' '); do for name in nrid nri-oci-hook; do \
    [ ! -f $dir/$name ] || mount --bind /dev/null $dir/$name || exit 1; done; done";

/// Directories in which programs are searched.
fn searched() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
}

fn is_installed() -> bool {
    let dirs = ["/etc/nri-container-runtime", "/usr/libexec/nri-container-runtime"];
    dirs.iter().any(|dir| Path::new(dir).exists())
        || searched().split(':').any(|dir| Path::new(dir).join("nrid").exists())
}

fn has_hybrid_cgroups() -> bool {
    Path::new("/sys/fs/cgroup/unified/cgroup.controllers").exists()
}

/// Creates the namespace. Returns `None` on failure: tests that need the namespace are then skipped
/// with the error of the runtime.
fn create_namespace() -> Option<Holder> {
    let mut child = Command::new(script("cgroups.sh"))
        .args(["unshare", "--mount", "--propagation", "private", "sh", "-c"])
        .arg(format!("{COVER}; echo $$; exec cat >/dev/null"))
        .env("SEARCHED", searched())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // A separate process group, so that an interrupt from the terminal does not kill the script
        // before it restores the controllers.
        .process_group(0)
        .spawn()
        .ok()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take()?).read_line(&mut line).ok()?;
    let pid: u32 = line.trim().parse().ok()?;
    Some(Holder { pid, _stdin: child.stdin.take()? })
}
