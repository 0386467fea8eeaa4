//! Processes by their names. Any user can name a process like an engine, so only processes of the
//! host itself count.
//!
//! [`is_of_host`] excludes those of other users and of containers. [`version_of`] runs a program
//! with our rights, and so only one that other users cannot replace.

use nri_trust::Owners;
use procfs::process::{Process, Status, all_processes};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Returns the host's own processes of these names, with the name of each.
pub(crate) fn named(names: &[&str]) -> impl Iterator<Item = (i32, String)> {
    let pids = all_processes().into_iter().flatten().flatten().map(|p| p.pid());
    let all = pids.map(|pid| (pid, command_name(pid)));
    let wanted: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    all.filter(move |(pid, name)| wanted.contains(name) && is_of_host(*pid))
}

/// Whether a process of this name runs on the host itself.
pub fn is_running(name: &str) -> bool {
    named(&[name]).next().is_some()
}

/// Describes a process in messages.
pub fn describe(pid: i32) -> String {
    format!("process {pid} ({})", command_name(pid))
}

/// Returns the name of a process; empty if it has exited.
pub fn command_name(pid: i32) -> String {
    // Names are bytes.
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}

/// Whether a process belongs to root or to our user, and not to a container.
///
/// A container has a PID namespace of its own; if it shares that of the host, its program does not
/// exist outside its mounts.
fn is_of_host(pid: i32) -> bool {
    let status = |process: procfs::ProcResult<Process>| process.and_then(|p| p.status());
    let (Ok(theirs), Ok(ours)) = (status(Process::new(pid)), status(Process::myself())) else {
        return false;
    };
    // The owner of its directory in /proc is no proof: a process can change it to root.
    let owners = Owners::of_this_process();
    let uids = [theirs.ruid, theirs.euid, theirs.suid, theirs.fuid];
    let depth = |status: &Status| status.nspid.as_ref().map(Vec::len);
    uids.into_iter().all(|uid| owners.contains(uid))
        && depth(&theirs) == depth(&ours)
        && (has_our_mounts(pid) || program(pid).is_some())
}

fn has_our_mounts(pid: i32) -> bool {
    let mounts =
        |of: &str| fs::metadata(format!("/proc/{of}/ns/mnt")).ok().map(|m| (m.dev(), m.ino()));
    let ours = mounts("self");
    ours.is_some() && mounts(&pid.to_string()) == ours
}

/// Path of its program, if it is the same file here and other users cannot replace it.
fn program(pid: i32) -> Option<PathBuf> {
    let link = PathBuf::from(format!("/proc/{pid}/exe"));
    let path = fs::read_link(&link).ok()?;
    Owners::of_this_process().check(&path).ok()?;
    let identity = |path: &Path| fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
    (identity(&path)? == identity(&link)?).then_some(path)
}

/// Runs the program of a process with `--version` and returns the first word that looks like a
/// version. `None` also if the file is not the running program, or if other users can change it.
pub fn version_of(pid: i32) -> Option<String> {
    let output = Command::new(program(pid)?)
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_version = |word: &&str| {
        word.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit()) && word.contains('.')
    };
    text.split_whitespace().find(is_version).map(|word| word.trim_end_matches(',').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        os::unix::{fs::PermissionsExt, process::CommandExt},
        process::Child,
        time::{Duration, Instant},
    };

    /// A name that no other process has.
    const NAME: &str = "nri-test-engine";

    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A program of that name that sleeps.
    fn engine(dir: &Path, mode: u32) -> PathBuf {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
        let file = dir.canonicalize().unwrap().join(NAME);
        let sleep =
            ["/bin/sleep", "/usr/bin/sleep"].into_iter().find(|p| Path::new(p).exists()).unwrap();
        fs::copy(sleep, &file).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        file
    }

    fn run(command: &mut Command) -> Running {
        let child = command.arg("60").spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while command_name(child.id() as i32) != NAME {
            assert!(Instant::now() < deadline, "it does not start");
            std::thread::sleep(Duration::from_millis(2));
        }
        Running(child)
    }

    fn found() -> bool {
        named(&[NAME]).next().is_some()
    }

    /// One test for all cases, since separate tests would find each other's processes.
    #[test]
    fn only_processes_of_the_host_count_by_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let file = engine(dir.path(), 0o755);
        let own = run(&mut Command::new(&file));
        let pid = own.0.id() as i32;
        assert!(found());
        assert!(version_of(pid).is_some_and(|v| v.contains('.')), "{:?}", version_of(pid));
        // A program that other users can write is not run.
        fs::set_permissions(&file, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(version_of(pid), None);
        // Nor is a program that replaced it.
        fs::rename(&file, dir.path().join("old")).unwrap();
        assert_eq!(version_of(pid), None);
        fs::write(&file, "#!/bin/sh\necho v2.0.0\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(version_of(pid), None);
        drop(own);
        assert!(!found());
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can be another user");
            return;
        }
        let file = engine(dir.path(), 0o755);
        let of_another = run(Command::new(&file).uid(65534).gid(65534));
        assert!(!found(), "another user's");
        drop(of_another);
        let unshare = |how: &str| {
            let mut command = Command::new("unshare");
            command.args([how, "--fork", "--kill-child", "--"]).arg(&file).arg("60");
            command
        };
        let probe = Command::new("unshare").args(["--pid", "--fork", "true"]).status();
        if !probe.is_ok_and(|s| s.success()) {
            println!("skipped: no PID namespaces here");
            return;
        }
        let container = Running(unshare("--pid").spawn().unwrap());
        let children = format!("/proc/{0}/task/{0}/children", container.0.id());
        let deadline = Instant::now() + Duration::from_secs(10);
        let inner = loop {
            assert!(Instant::now() < deadline, "it does not start");
            let child = fs::read_to_string(&children).unwrap_or_default().trim().parse().ok();
            match child.filter(|pid| command_name(*pid) == NAME) {
                Some(pid) => break pid,
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        assert!(!found(), "a container's");
        assert!(!is_of_host(inner));
    }
}
