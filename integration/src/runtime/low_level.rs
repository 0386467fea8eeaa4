//! Finds the real runtimes of this machine that can run containers.

use crate::{
    Bundle, Report, call, enter, find_program, is_root,
    machine::{cgroup_driver, cgroups_path},
    skip,
};
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// A low-level runtime.
#[derive(Debug, Clone)]
pub struct Runtime {
    /// Name: `runc` or `crun`.
    pub name: &'static str,
    /// Path of the program.
    pub path: PathBuf,
}

impl Runtime {
    /// Returns a command of the bare runtime.
    pub fn command(&self, root: &Path) -> Command {
        let mut command = enter::command(&self.path);
        command.args(cgroup_driver()).arg("--root").arg(root);
        command
    }
}

/// Whether huge pages of 2 MiB can be limited on this machine.
pub fn has_hugepages() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        let mut test = enter::command("sh");
        test.args([
            "-c",
            "test -e /sys/fs/cgroup/hugetlb/hugetlb.2MB.usage_in_bytes || { grep -qw \
            hugetlb /sys/fs/cgroup/cgroup.controllers && test -e \
            /sys/kernel/mm/hugepages/hugepages-2048kB; }",
        ]);
        is_root() && test.stderr(std::process::Stdio::null()).status().is_ok_and(|s| s.success())
    })
}

/// A runtime that cannot run a container on this machine, and the reason.
pub type Unfit = (&'static str, String);

/// Returns the runtimes that can run a container on this machine, and the others with the reasons.
/// The first call runs a container with each.
pub fn runtimes() -> &'static (Vec<Runtime>, Vec<Unfit>) {
    static FOUND: OnceLock<(Vec<Runtime>, Vec<Unfit>)> = OnceLock::new();
    FOUND.get_or_init(|| {
        let (mut usable, mut unfit) = (Vec::new(), Vec::new());
        for name in ["runc", "crun"] {
            match try_out(name) {
                Ok(runtime) => usable.push(runtime),
                Err(reason) => unfit.push((name, reason)),
            }
        }
        (usable, unfit)
    })
}

/// Runs `test` with each runtime; records a skip for each that cannot run a container.
pub fn for_each_runtime(name: &str, test: impl Fn(&Runtime)) {
    let (usable, unfit) = runtimes();
    for (runtime, reason) in unfit {
        skip(&format!("{name} ({runtime})"), reason);
    }
    for runtime in usable {
        test(runtime);
    }
}

/// Runs the probe with the bare runtime: where the probe fails, a test would fail even with a
/// correct wrapper. The pids limit, 33, is arbitrary; the probe must report it.
fn try_out(name: &'static str) -> Result<Runtime, String> {
    if !is_root() {
        return Err("not root".to_owned());
    }
    let path =
        find_program(name).ok_or_else(|| format!("no {name}; integration/setup.sh installs it"))?;
    if find_program("busybox").is_none() {
        return Err("no busybox; integration/setup.sh installs it".to_owned());
    }
    let dir = tempfile::Builder::new().prefix("nri-try-").tempdir().map_err(|e| e.to_string())?;
    let id = format!("try-{name}-{}", std::process::id());
    let bundle = Bundle::new(dir.path(), &id)
        .cgroup(&cgroups_path("", &id))
        .resources(r#"{"pids": {"limit": 33}}"#)
        .make();
    let runtime = Runtime { name, path };
    let mut command = runtime.command(&dir.path().join("root"));
    command.args(["run", "--bundle"]).arg(bundle.dir()).arg(&id);
    let ended = call::run(command, dir.path());
    match Report::parse(&ended.out()).get("pids.max") {
        Some("33") => Ok(runtime),
        _ => Err(format!(
            "{name} cannot run a container here: {}",
            ended.err().lines().last().unwrap_or("stderr is empty")
        )),
    }
}
