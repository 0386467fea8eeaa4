//! Properties of a container's process, read from the kernel.

use crate::{Process, cgroup_root, is_cgroup_v2, wait_until};
use std::{fs, path::PathBuf};

/// The init process of a container.
#[derive(Debug, Clone, Copy)]
pub struct ContainerProcess(pub Process);

impl ContainerProcess {
    /// Reads a limit of the process's cgroup: on cgroup v1 the file `v1` of the controller, on
    /// cgroup v2 the file `v2`.
    ///
    /// # Panics
    /// The file cannot be read.
    #[track_caller]
    pub fn limit(self, controller: &str, v1: &str, v2: &str) -> String {
        self.try_limit(controller, v1, v2)
            .unwrap_or_else(|| panic!("no {controller} limit {v1} or {v2}"))
    }

    /// Reads a limit like [`Self::limit`]; `None` if the kernel has no such file.
    pub fn try_limit(self, controller: &str, v1: &str, v2: &str) -> Option<String> {
        let file = self.cgroup(controller).join(if is_cgroup_v2() { v2 } else { v1 });
        Some(fs::read_to_string(&file).ok()?.trim_end().to_owned())
    }

    /// Directory of the process's cgroup.
    pub fn cgroup(self, controller: &str) -> PathBuf {
        let text = self.0.cgroups();
        let path = text.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let is_match = if is_cgroup_v2() {
                controllers.is_empty()
            } else {
                controllers.split(',').any(|c| c == controller)
            };
            is_match.then(|| path.trim_start_matches('/').to_owned())
        });
        let path = path.unwrap_or_else(|| panic!("no {controller} in: {text}"));
        cgroup_root(controller).join(path)
    }

    /// Waits until the init process of a started container executes the container's program, and
    /// returns the process. Waits because `start` may return while the process still executes the
    /// runtime.
    pub fn of(process: Process) -> Self {
        wait_until("the container's program to be executed", || {
            let is_runtime = |program: PathBuf| {
                let program = program.to_string_lossy().into_owned();
                ["runc", "crun"].iter().any(|name| program.contains(name))
            };
            (!process.program().is_some_and(is_runtime)).then_some(())
        });
        Self(process)
    }

    /// Value of a variable in the process's environment.
    pub fn env(self, name: &str) -> Option<String> {
        let text = fs::read(format!("/proc/{}/environ", self.0.0)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        text.split('\0').find_map(|v| v.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
    }

    /// Soft and hard limit of a resource, by its name in `/proc/PID/limits`, such as `Max open
    /// files`.
    pub fn rlimit(self, name: &str) -> Option<(String, String)> {
        let text = fs::read_to_string(format!("/proc/{}/limits", self.0.0)).unwrap_or_default();
        let values = text.lines().find_map(|line| line.strip_prefix(name))?.to_owned();
        let mut values = values.split_whitespace().map(str::to_owned);
        Some((values.next()?, values.next()?))
    }

    /// File system type and options of the mount at a path of the container.
    pub fn mount(self, destination: &str) -> Option<String> {
        let text = fs::read_to_string(format!("/proc/{}/mounts", self.0.0)).unwrap_or_default();
        text.lines()
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .find(|f| f.get(1) == Some(&destination))
            .map(|f| f[2..4].join(" "))
    }

    /// Waits until the process has ended.
    pub fn wait_for_end(self) {
        wait_until(format_args!("the end of process {}", self.0.0), || {
            (!self.0.is_alive()).then_some(())
        });
    }
}
