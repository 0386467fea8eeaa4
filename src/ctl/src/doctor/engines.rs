//! Checks which engines have the wrapper in their files, under which name, whether it is the
//! default runtime, and whether the engine that runs sees the same files as this process.
//!
//! An engine without the wrapper in its files has no findings: nothing is installed there, or its
//! clients name the wrapper by its path (nerdctl, `ctr`, BuildKit).

use super::{
    docker::has_read_its_file,
    finding::DoctorReport,
    kinds::{
        ENGINE_NONE, ENGINE_OTHER_FILES, ENGINE_OWN_MOUNTS, ENGINE_PROGRAM_MISSING, ENGINE_RUNTIME,
        ENGINE_RUNTIME_DEFAULT, ENGINE_STATE_DIR, ENGINE_UNINSTALLED, ENGINE_UNREADABLE,
    },
};
use crate::{
    install::{ConfiguredEngine, TargetEngine, configured, recorded_engines},
    nrid_location::NridLocation,
};
use nri_host::RunningEngine;
use rustix::process::geteuid;
use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt, path::Path};

/// The engines that have the wrapper in their files.
#[derive(Debug, Default)]
pub(super) struct InstalledEngines {
    /// Their processes.
    pub(super) pids: BTreeSet<i32>,
    /// The engines, and whether the wrapper is the default runtime.
    pub(super) defaults: Vec<(TargetEngine, bool)>,
}

/// Checks all engines. Returns those that have the wrapper in their files.
pub(super) fn engines(
    report: &mut DoctorReport,
    nrid: &NridLocation,
    running: &[RunningEngine],
) -> InstalledEngines {
    let recorded = recorded_engines().unwrap_or_else(|error| {
        report.add(ENGINE_UNREADABLE, error.to_string());
        Vec::new()
    });
    let mut installed = InstalledEngines::default();
    for engine in TargetEngine::WITH_FILES {
        let is_recorded = recorded.iter().any(|name| name == engine.name());
        let processes = || running.iter().filter(|r| r.name == engine.program());
        // The file of a process is usually that of this machine.
        let mut errors = BTreeSet::new();
        let mut unreadable = |report: &mut DoctorReport, error: String| {
            // Without a record of an installation, the file is none of our business.
            if is_recorded && errors.insert(error.clone()) {
                report.add(ENGINE_UNREADABLE, format!("{}: {error}", engine.name()));
            }
        };
        let (mut readers, mut is_default) = (0, false);
        for process in processes() {
            let pid = process.has_own_mounts.then_some(process.pid);
            // CRI-O reads drop-ins besides the file of its `--config`.
            let file = process.config_file.as_deref().filter(|_| engine != TargetEngine::Crio);
            match configured(engine, pid, file) {
                Ok(Some(configured)) => {
                    let shown = format!("{} (process {})", engine.name(), process.pid);
                    let is_effective = engine == TargetEngine::Docker
                        && has_read_its_file(report, &shown, process.pid, &configured);
                    runtimes(report, &shown, &configured, is_effective);
                    own_mounts(report, nrid, &shown, process);
                    installed.pids.insert(process.pid);
                    is_default |= configured.default_runtime().is_some();
                    readers += 1;
                }
                Ok(None) => {}
                Err(error) => unreadable(report, error.to_string()),
            }
        }
        // The usual files of this machine, which an engine reads at its next start.
        match configured(engine, None, None) {
            _ if readers > 0 => {}
            Ok(Some(configured)) => {
                runtimes(report, engine.name(), &configured, false);
                processes().for_each(|process| other_files(report, engine, process, &configured));
                is_default |= configured.default_runtime().is_some();
                readers += 1;
            }
            Ok(None) if is_recorded && engine != TargetEngine::Nerdctl => {
                report.add(
                    ENGINE_UNINSTALLED,
                    format!(
                        "{0}: installed.json has an installation, but no file of {0} has our \
                         runtime any more",
                        engine.name()
                    ),
                );
                report.advise(format!(
                    "`nrictl install {0}` adds it again, `nrictl uninstall {0}` removes the \
                     record.",
                    engine.name()
                ));
            }
            Ok(None) => {}
            Err(error) => unreadable(report, error.to_string()),
        }
        if readers > 0 {
            installed.defaults.push((engine, is_default));
        }
    }
    if installed.defaults.is_empty() {
        report.add(ENGINE_NONE, "no engine has nri-container-runtime among its runtimes");
        report.advise(
            "`nrictl install ENGINE` adds it. nerdctl, ctr and BuildKit need no installation: they \
             name its path.",
        );
    }
    installed
}

/// Reports the runtimes in the files of one engine; `is_effective`: the engine says the same.
fn runtimes(
    report: &mut DoctorReport,
    shown: &str,
    configured: &ConfiguredEngine,
    is_effective: bool,
) {
    let source = if is_effective { ", as Docker says" } else { " there" };
    let default = configured.default_runtime();
    for runtime in &configured.runtimes {
        let (name, (binary, is_program)) = (&runtime.name, &runtime.binary);
        let (binary, file) = (binary.display(), runtime.file.display());
        let text = format!("{shown}: runtime {name} in {file} calls {binary}");
        if !is_program {
            report.add(ENGINE_PROGRAM_MISSING, format!("{text}, which is not a program there"));
            report.advise(
                "The engine cannot create containers with this runtime: install the program again, \
                 or uninstall the runtime.",
            );
        } else if default.is_some_and(|default| default.name == *name) {
            report
                .add(ENGINE_RUNTIME_DEFAULT, format!("{text}; it is the default runtime{source}"));
        } else {
            report.add(ENGINE_RUNTIME, format!("{text}; it is not the default runtime{source}"));
        }
    }
}

/// Reports an engine with mounts of its own, and whether it has another state directory.
fn own_mounts(
    report: &mut DoctorReport,
    nrid: &NridLocation,
    shown: &str,
    process: &RunningEngine,
) {
    if !process.has_own_mounts {
        return;
    }
    report.add(
        ENGINE_OWN_MOUNTS,
        format!(
            "{shown}: has a mount namespace of its own: files may differ from those at the same \
             paths here"
        ),
    );
    report.advise(format!(
        "`{}` shows what it sees. Its configuration, our programs and the state directory must be \
         visible there.",
        enter(process.pid)
    ));
    let identity = |path: &Path| fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
    let dir = &nrid.launcher.state_dir;
    let Some(ours) = identity(dir) else { return };
    let in_engine = Path::new("/proc")
        .join(process.pid.to_string())
        .join("root")
        .join(dir.strip_prefix("/").unwrap_or(dir));
    if identity(&in_engine) != Some(ours) {
        let dir = dir.display();
        report.add(
            ENGINE_STATE_DIR,
            format!("{shown}: {dir} is another directory there: it cannot reach nrid"),
        );
        report.advise(format!("Make {dir} visible to the engine, for example by a bind mount."));
    }
}

/// Reports an engine that runs with other files than those that have our runtime.
fn other_files(
    report: &mut DoctorReport,
    engine: TargetEngine,
    process: &RunningEngine,
    configured: &ConfiguredEngine,
) {
    let Some(runtime) = configured.runtimes.first() else { return };
    let (name, pid, file) = (engine.name(), process.pid, runtime.file.display());
    let read = process.config_file.as_ref().map(|file| format!("reads {}", file.display()));
    let mounts = process.has_own_mounts.then(|| "has a mount namespace of its own".to_owned());
    let why: Vec<_> = read.into_iter().chain(mounts).collect();
    // Without any of these it reads the usual files, which were changed a moment ago.
    if !why.is_empty() {
        let text = format!(
            "{name} (process {pid}): {}, and does not see our runtime in {file}",
            why.join(" and ")
        );
        report.add(ENGINE_OTHER_FILES, text);
        report.advise(format!(
            "`nrictl install {name} --engine-config FILE` writes to another file. In the mount \
             namespace of the engine: `{} nrictl install {name}`.",
            enter(pid)
        ));
    }
}

/// Returns the command that enters the mount namespace of an engine. That of a user's engine
/// belongs to its user namespace.
fn enter(pid: i32) -> String {
    let user = if geteuid().is_root() { "" } else { " --user --preserve-credentials" };
    format!("nsenter --target {pid}{user} --mount")
}
