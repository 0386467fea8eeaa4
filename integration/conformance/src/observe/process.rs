//! The init process of a container.

use rustix::fs::{major, minor};
use std::{
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::PathBuf,
};

/// The init process of a container, by its id in our pid namespace.
#[derive(Debug, Clone, Copy)]
pub struct Process(pub u32);

impl Process {
    /// Whether the process exists and is no zombie.
    pub fn is_running(self) -> bool {
        let status = self.text("status");
        let state = status.lines().find_map(|line| line.strip_prefix("State:"));
        state.is_some_and(|state| !state.trim().starts_with(['Z', 'X']))
    }

    /// Command line.
    pub fn args(self) -> Vec<String> {
        strings(&self.text("cmdline"))
    }

    /// Value of a variable.
    pub fn env(self, name: &str) -> Option<String> {
        let value =
            |variable: &String| variable.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
        strings(&self.text("environ")).iter().find_map(value)
    }

    /// Type of the file system that is mounted at a path of the container.
    pub fn mount(self, path: &str) -> Option<String> {
        let mounts = self.text("mounts");
        let fields = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let mut all = mounts.lines().map(fields);
        all.rfind(|f| f.get(1).is_some_and(|p| p == path))?.get(2).cloned()
    }

    /// Soft and hard limit, by the name in `/proc/PID/limits`.
    pub fn rlimit(self, name: &str) -> Option<[u64; 2]> {
        let limits = self.text("limits");
        let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
        let mut values = line.split_whitespace().map(|n| n.parse().unwrap_or(u64::MAX));
        Some([values.next()?, values.next()?])
    }

    /// Type and numbers of a device of the container: `c 1:3`.
    pub fn device(self, path: &str) -> Option<String> {
        let metadata = fs::symlink_metadata(self.inside(path)).ok()?;
        let kind = match metadata.file_type() {
            kind if kind.is_char_device() => 'c',
            kind if kind.is_block_device() => 'b',
            _ => return None,
        };
        let number = metadata.rdev();
        Some(format!("{kind} {}:{}", major(number), minor(number)))
    }

    /// Content of a file of the container, without the last line feed.
    pub fn file(self, path: &str) -> Option<String> {
        Some(fs::read_to_string(self.inside(path)).ok()?.trim_end().to_owned())
    }

    /// `oom_score_adj`.
    pub fn oom_score_adj(self) -> Option<i64> {
        self.text("oom_score_adj").trim().parse().ok()
    }

    /// Content of a file of the process.
    pub fn text(self, name: &str) -> String {
        let bytes = fs::read(format!("/proc/{}/{name}", self.0)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn inside(self, path: &str) -> PathBuf {
        format!("/proc/{}/root/{}", self.0, path.trim_start_matches('/')).into()
    }
}

fn strings(text: &str) -> Vec<String> {
    text.split_terminator('\0').map(str::to_owned).collect()
}
