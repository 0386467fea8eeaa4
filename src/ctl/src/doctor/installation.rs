//! Checks of the configuration, of the break-glass file, and of programs.

use super::{
    finding::DoctorReport,
    kinds::{
        BYPASS_ON, BYPASS_UNTRUSTED, CONFIG_DISABLED, CONFIG_INVALID, CONFIG_MISTAKE, CONFIG_READ,
        HOOK_NOT_FOUND, NRID_FOUND, NRID_NOT_FOUND, NRID_UNUSABLE, PATH_MISSING, RUNTIME_FOUND,
        RUNTIME_NOT_FOUND, RUNTIME_UNUSABLE,
    },
    program,
};
use crate::{bypass, nrid_location::NridLocation};
use nri_control::answers;
use nri_locate::{
    BreakGlass, Environment, HOOK, LIBEXEC_DIR, break_glass_file, can_run, missing_paths,
    runtime_candidates, standard_dirs,
};
use std::path::{Path, PathBuf};

/// Checks the break-glass file and the configuration.
pub(super) fn configuration(report: &mut DoctorReport, nrid: &NridLocation) {
    let break_glass = break_glass_file(&Environment::of_this_process(), answers);
    if let Some(text) = bypass::describe(&break_glass) {
        match break_glass {
            BreakGlass::On(_) => {
                report.add(BYPASS_ON, text);
                report.advise("Remove the file when it is no longer needed.");
            }
            BreakGlass::Hangs(_) => report.add(BYPASS_UNTRUSTED, text),
            _ => {
                report.add(BYPASS_UNTRUSTED, text);
                report.advise(
                    "It has no effect. Remove it, and to disable NRI create it again as root, in a \
                     directory that only root can write to: with `touch`, or with the word bypass.",
                );
            }
        }
    }
    if let Some(problem) = &nrid.problem {
        let text = problem.to_string();
        // The column says `configuration` already.
        report.add(CONFIG_INVALID, text.strip_prefix("configuration ").unwrap_or(&text));
        report.advise(
            "Until the file is valid, reload and restart are refused. The last configuration that \
             could be used is effective; after a boot there is none, and no container can be \
             created.",
        );
        return;
    }
    let file = nrid.file.as_ref().map(|file| file.display().to_string());
    let file = file.unwrap_or_else(|| "none: defaults".to_owned());
    for mistake in &nrid.mistakes {
        report.add(CONFIG_MISTAKE, format!("{file}: {mistake}"));
        report.advise("Until it is corrected, reload and restart are refused.");
    }
    report.add(CONFIG_READ, file);
    // Missing runtimes are reported by `programs`.
    let missing = missing_paths(&nrid.config, &Environment::of_this_process());
    for missing in missing.iter().filter(|missing| !missing.key.starts_with("runtime")) {
        report.add(PATH_MISSING, missing.to_string());
    }
    if nrid.config.disable {
        let text = "disable = true: every verb is a plain call of the real runtime";
        report.add(CONFIG_DISABLED, text);
    }
}

/// Checks that our programs and the real runtimes are found.
pub(super) fn programs(report: &mut DoctorReport, nrid: &NridLocation) {
    match &nrid.launcher.program {
        Some(program) => match program::defect(program) {
            None => report.add(NRID_FOUND, program.display().to_string()),
            Some(defect) => {
                report.add(NRID_UNUSABLE, format!("{}, {defect}", program.display()));
                report.advise("No container can be created. Install the program again.");
            }
        },
        None => report.add(NRID_NOT_FOUND, "the program is not found: no container can be created"),
    }
    let nrid_dir = nrid.launcher.program.as_deref().and_then(Path::parent);
    let mut dirs = nrid_dir.into_iter().chain([Path::new(LIBEXEC_DIR)]);
    if !dirs.any(|dir| dir.join(HOOK).is_file()) {
        report.add(HOOK_NOT_FOUND, format!("it is neither beside nrid nor in {LIBEXEC_DIR}"));
        report.advise(
            "Without the hook, plugins are not notified of containers that are created with `run`, \
             as BuildKit does.",
        );
    }
    let settings = &nrid.config.runtime;
    for path in settings.names.values().map(|named| &named.path).chain(&settings.path) {
        match find(path) {
            Some(found) => runtime(report, &found, ""),
            None => {
                let what = match path {
                    path if path.is_dir() => "a directory, not a program",
                    path if path.is_file() => "not executable",
                    _ => "not found",
                };
                report.add(RUNTIME_NOT_FOUND, format!("{} is {what}", path.display()));
            }
        }
    }
    if settings.path.is_none() {
        match runtime_candidates(settings).iter().find_map(|name| find(name)) {
            Some(found) => runtime(report, &found, ", the first of the candidates"),
            None => report.add(RUNTIME_NOT_FOUND, "none of the candidates is found"),
        }
    }
}

/// Checks a real runtime that was found; `which` says why it is called.
fn runtime(report: &mut DoctorReport, found: &Path, which: &str) {
    match program::defect(found) {
        None => report.add(RUNTIME_FOUND, format!("{}{which}", found.display())),
        Some(defect) => {
            report.add(RUNTIME_UNUSABLE, format!("{}{which}, {defect}", found.display()));
            report.advise("Install it again, or name another one in [runtime].");
        }
    }
}

/// Finds a program that can be run: an absolute path itself, a bare name in the standard
/// directories.
fn find(name: &Path) -> Option<PathBuf> {
    if name.is_absolute() {
        return can_run(name).then(|| name.to_owned());
    }
    standard_dirs().map(|dir| dir.join(name)).find(|path| can_run(path))
}
