//! Finds and builds the programs that are compared with ours: runtimes, C programs, and upstream's
//! adaptation in Go.

use nri_bench::programs::{compile, run, source};
use nri_integration::find_program;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// A low-level runtime that can run containers here.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
    /// C program that only calls `execv` for this runtime.
    pub(crate) execv: PathBuf,
}

/// Paths of the programs, and the request that they send.
#[derive(Debug)]
pub(crate) struct Peers {
    /// C program that takes the place of a runtime and exits at once.
    pub(crate) exit: PathBuf,
    /// C program that only calls `execv` for `exit`.
    pub(crate) execv_exit: PathBuf,
    /// C program that prints the peak memory of another program.
    pub(crate) peak: PathBuf,
    pub(crate) runtimes: Vec<Runtime>,
    /// Upstream's adaptation.
    pub(crate) adaptation: PathBuf,
    /// Go plugin on upstream's stub, which adjusts each container.
    pub(crate) plugin: PathBuf,
    /// File with the `CreateContainer` request that both adaptations send.
    pub(crate) request: PathBuf,
}

impl Peers {
    /// Builds all programs in a directory.
    ///
    /// # Panics
    /// A compiler is missing or fails.
    pub(crate) fn build(dir: &Path) -> Self {
        let exit = compile("exit", dir.join("exit"), &["-nostdlib", "-nostartfiles"]);
        let execv = |name: &str, runtime: &Path| {
            let define = format!("-DRUNTIME=\"{}\"", runtime.display());
            compile("execv", dir.join(name), &[&define])
        };
        let execv_exit = execv("execv-exit", &exit);
        let find = |name| Some((name, find_program(name)?));
        let found = ["runc", "crun"].into_iter().filter_map(find);
        let runtimes = found
            .map(|(name, path)| {
                let execv = execv(&format!("execv-{name}"), &path);
                Runtime { name, path, execv }
            })
            .collect();
        let peak = compile("peak", dir.join("peak"), &[]);
        let go = find_program("go").expect("Go is needed for upstream's adaptation");
        let mut build = Command::new(go);
        build.args(["build", "-trimpath", "-buildvcs=false", "-o"]).arg(dir);
        build.args(["./adaptation", "./plugin"]).env("CGO_ENABLED", "0").current_dir(source("go"));
        run(&mut build);
        let (adaptation, request) = (dir.join("adaptation"), dir.join("request"));
        run(Command::new(&adaptation).arg("request").arg(&request));
        let plugin = dir.join("plugin");
        Self { exit, execv_exit, peak, runtimes, adaptation, plugin, request }
    }
}
