//! Properties of a process, read from `/proc`.

use std::{fs, path::PathBuf};

/// A process, by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process(pub u32);

impl Process {
    /// Whether any thread of the process still runs: the first thread may be a zombie while others
    /// run.
    pub fn is_alive(self) -> bool {
        let threads = || fs::read_dir(format!("/proc/{}/task", self.0)).map_or(0, Iterator::count);
        self.stat(2).is_some_and(|state| (state != "Z" && state != "X") || threads() > 1)
    }

    /// Start time in ticks since boot, which together with the id identifies a process.
    pub fn start_time(self) -> Option<u64> {
        self.stat(21)?.parse().ok()
    }

    /// Describes the process and its threads, for a message about a process that should have ended.
    pub fn describe(self) -> String {
        let file = |name: &str| {
            let text = fs::read(format!("/proc/{}/{name}", self.0)).unwrap_or_default();
            String::from_utf8_lossy(&text).replace('\0', " ")
        };
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0)).into_iter().flatten().flatten();
        let threads: String = tasks
            .map(|t| {
                let name = format!("task/{}", t.file_name().to_string_lossy());
                format!(
                    "{}: {}\n{}",
                    name,
                    file(&format!("{name}/wchan")),
                    file(&format!("{name}/stack"))
                )
            })
            .collect();
        format!("{}\n{}\n{threads}", file("cmdline"), file("status"))
    }

    /// Session id.
    pub fn session(self) -> Option<u32> {
        self.stat(5)?.parse().ok()
    }

    /// Process id of the parent.
    pub fn parent(self) -> Option<u32> {
        self.stat(3)?.parse().ok()
    }

    /// Targets of the open file descriptors.
    pub fn files(self) -> Vec<PathBuf> {
        fs::read_dir(format!("/proc/{}/fd", self.0))
            .into_iter()
            .flatten()
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .collect()
    }

    /// Content of `/proc/PID/cgroup`.
    pub fn cgroups(self) -> String {
        fs::read_to_string(format!("/proc/{}/cgroup", self.0)).unwrap_or_default()
    }

    /// Path of the executed program.
    pub fn program(self) -> Option<PathBuf> {
        fs::read_link(format!("/proc/{}/exe", self.0)).ok()
    }

    /// Whether the process has a handler for a signal.
    pub fn catches(self, signal: rustix::process::Signal) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
        u64::from_str_radix(caught.trim(), 16)
            .is_ok_and(|mask| mask & (1 << (signal.as_raw() - 1)) != 0)
    }

    /// Sends a signal.
    pub fn signal(self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.0)
            .ok()
            .and_then(rustix::process::Pid::from_raw)
            .expect("the id is a valid process id");
        rustix::process::kill_process(pid, signal)
            .unwrap_or_else(|e| panic!("kill {}: {e}", self.0));
    }

    /// Returns all processes of the machine.
    pub fn all() -> Vec<Self> {
        let name = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
        fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .filter_map(|e| name(e.ok()?))
            .map(Self)
            .collect()
    }

    /// Field of `/proc/PID/stat`, counted from 0. `field` is at least 2, because field 1 is a name
    /// that may hold spaces and parentheses.
    fn stat(self, field: usize) -> Option<String> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?;
        let (_, rest) = text.rsplit_once(") ")?;
        rest.split(' ').nth(field - 2).map(str::to_owned)
    }
}
