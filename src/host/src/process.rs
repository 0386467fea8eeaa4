//! Processes by their names. Any user can name a process like an engine, so only processes of the
//! host itself count.
//!
//! [`is_of_host`] excludes processes of other users and of containers. [`version_of`] runs the
//! program of a process with our rights, so it runs no program that other users could replace.

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

/// Whether the host itself runs a process of this name.
pub fn is_running(name: &str) -> bool {
    named(&[name]).next().is_some()
}

/// Returns the description of a process in messages.
pub fn describe(pid: i32) -> String {
    format!("process {pid} ({})", command_name(pid))
}

/// Returns the name of a process; empty if it has exited.
pub fn command_name(pid: i32) -> String {
    // A name may have any bytes.
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}

/// Whether a process is stopped, by SIGSTOP or by a debugger (state T or t).
pub fn is_stopped(pid: i32) -> bool {
    Process::new(pid).and_then(|p| p.stat()).is_ok_and(|stat| matches!(stat.state, 'T' | 't'))
}

/// Whether the process with this id and start time, in clock ticks after boot, has not exited.
pub fn is_alive(pid: i32, start_time: u64) -> bool {
    let stat = Process::new(pid).and_then(|p| p.stat());
    stat.is_ok_and(|stat| stat.starttime == start_time && !matches!(stat.state, 'Z' | 'X'))
}

/// Whether a process belongs to root or to our user, and not to a container.
///
/// A process belongs to a container if its PID namespace is not ours. A container may share the
/// host's PID namespace. Then its process has other mounts, and in our mount namespace the path of
/// its program names no file, or another file.
pub(crate) fn is_of_host(pid: i32) -> bool {
    let status = |process: procfs::ProcResult<Process>| process.and_then(|p| p.status());
    let (Ok(theirs), Ok(ours)) = (status(Process::new(pid)), status(Process::myself())) else {
        return false;
    };
    // The owner of `/proc/PID` proves nothing: a process can make root the owner.
    let owners = Owners::of_this_process();
    let uids = [theirs.ruid, theirs.euid, theirs.suid, theirs.fuid];
    let depth = |status: &Status| status.nspid.as_ref().map(Vec::len);
    uids.into_iter().all(|uid| owners.contains(uid))
        && depth(&theirs) == depth(&ours)
        && (has_our_mounts(pid) || program(pid).is_some())
}

/// Whether a process is in our mount namespace.
pub(crate) fn has_our_mounts(pid: i32) -> bool {
    let ours = mount_namespace("self");
    ours.is_some() && mount_namespace(&pid.to_string()) == ours
}

/// Whether a process is in our mount namespace, or in that of process 1, which is the host's if the
/// process has our pid namespace.
pub(crate) fn has_mounts_of_host(pid: i32) -> bool {
    let theirs = mount_namespace(&pid.to_string());
    theirs.is_some() && ["self", "1"].iter().any(|of| mount_namespace(of) == theirs)
}

/// Returns device and inode of the mount namespace of a process.
fn mount_namespace(process: &str) -> Option<(u64, u64)> {
    fs::metadata(format!("/proc/{process}/ns/mnt")).ok().map(|m| (m.dev(), m.ino()))
}

/// Returns the path of the program of a process. `None` if the path names another file in our mount
/// namespace, or if other users can replace the file.
fn program(pid: i32) -> Option<PathBuf> {
    let link = PathBuf::from(format!("/proc/{pid}/exe"));
    let path = fs::read_link(&link).ok()?;
    Owners::of_this_process().check(&path).ok()?;
    let identity = |path: &Path| fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
    (identity(&path)? == identity(&link)?).then_some(path)
}

/// Runs the program of a process with `--version` and returns the first word that looks like a
/// version. Returns `None` without running anything if the file at the path is not the running
/// program, or if other users can change the file.
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

    /// A process that is killed when it is dropped.
    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Creates a program called [`NAME`], a copy of `sleep`.
    fn create_program(dir: &Path, mode: u32) -> PathBuf {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
        let file = dir.canonicalize().unwrap().join(NAME);
        let sleep =
            ["/bin/sleep", "/usr/bin/sleep"].into_iter().find(|p| Path::new(p).exists()).unwrap();
        fs::copy(sleep, &file).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        file
    }

    /// Starts a program for at most 60 seconds, and waits until its process is called [`NAME`].
    fn run(command: &mut Command) -> Running {
        let child = command.arg("60").spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while command_name(child.id() as i32) != NAME {
            assert!(Instant::now() < deadline, "the program did not start");
            std::thread::sleep(Duration::from_millis(2));
        }
        Running(child)
    }

    fn is_found() -> bool {
        named(&[NAME]).next().is_some()
    }

    /// One test for all cases, since separate tests would find each other's processes.
    #[test]
    fn only_processes_of_the_host_are_found_by_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let file = create_program(dir.path(), 0o755);
        let own = run(&mut Command::new(&file));
        let pid = own.0.id() as i32;
        assert!(is_found());
        assert!(version_of(pid).is_some_and(|v| v.contains('.')), "{:?}", version_of(pid));
        // A program that other users can write is not run.
        fs::set_permissions(&file, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(version_of(pid), None);
        // A program that replaced the running program is not run, either.
        fs::rename(&file, dir.path().join("old")).unwrap();
        assert_eq!(version_of(pid), None);
        fs::write(&file, "#!/bin/sh\necho v2.0.0\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(version_of(pid), None);
        drop(own);
        assert!(!is_found());
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can run a program as another user");
            return;
        }
        let file = create_program(dir.path(), 0o755);
        // 65534 is the overflow user ID, which owns no file here.
        let of_another_user = run(Command::new(&file).uid(65534).gid(65534));
        assert!(!is_found(), "found a process of another user");
        drop(of_another_user);
        let unshare = |namespace: &str| {
            let mut command = Command::new("unshare");
            command.args([namespace, "--fork", "--kill-child", "--"]).arg(&file).arg("60");
            command
        };
        let probe = Command::new("unshare").args(["--pid", "--fork", "true"]).status();
        if !probe.is_ok_and(|s| s.success()) {
            println!("skipped: PID namespaces cannot be created");
            return;
        }
        let container = Running(unshare("--pid").spawn().unwrap());
        let children = format!("/proc/{0}/task/{0}/children", container.0.id());
        let deadline = Instant::now() + Duration::from_secs(10);
        let inner = loop {
            assert!(Instant::now() < deadline, "the program did not start");
            let child = fs::read_to_string(&children).unwrap_or_default().trim().parse().ok();
            match child.filter(|pid| command_name(*pid) == NAME) {
                Some(pid) => break pid,
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        assert!(!is_found(), "found a process of a container");
        assert!(!is_of_host(inner));
    }
}
