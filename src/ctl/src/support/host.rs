//! What a support bundle has of the host.

use std::process::{Command, Stdio};

/// Files that describe the host. Those that do not exist are left out.
pub(super) const HOST_FILES: &[&str] = &[
    "/etc/os-release",
    "/proc/version",
    "/proc/cmdline",
    "/proc/cgroups",
    "/proc/self/mountinfo",
    "/proc/meminfo",
    "/proc/loadavg",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/fs/inotify/max_user_instances",
    "/proc/sys/fs/file-nr",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/node/online",
    "/sys/fs/cgroup/cgroup.controllers",
];

/// Files in which engines find the wrapper.
pub(super) const ENGINE_FILES: &[&str] = &[
    "/etc/docker/daemon.json",
    "/etc/containerd/config.toml",
    "/etc/containers/containers.conf",
    "/etc/containers/containers.conf.d/zz-nri-container-runtime.conf",
    "/etc/crio/crio.conf",
    "/etc/crio/crio.conf.d/zz-nri-container-runtime.conf",
    "/etc/isulad/daemon.json",
    "/etc/nri-container-runtime/installed.json",
];

/// Programs whose versions matter.
const PROGRAMS: &[&str] =
    &["runc", "crun", "youki", "containerd", "dockerd", "podman", "crio", "isulad", "systemctl"];

/// Returns the versions of the programs that are installed.
pub(super) fn versions() -> String {
    let version = |program: &&str| {
        let mut command = Command::new(program);
        let output = command.arg("--version").stdin(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().replace('\n', "\n    ");
        Some(format!("{program}\n    {text}\n"))
    };
    PROGRAMS.iter().filter_map(version).collect()
}
