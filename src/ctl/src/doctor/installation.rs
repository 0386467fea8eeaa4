//! Checks of the configuration, of the break-glass file, and of programs.

use super::finding::DoctorReport;
use crate::{bypass, nrid_location::NridLocation};
use nri_locate::{
    BreakGlass, Environment, HOOK, LIBEXEC_DIR, break_glass_file, missing_paths,
    runtime_candidates, standard_dirs,
};
use std::path::{Path, PathBuf};

/// Checks the break-glass file and the configuration.
pub(super) fn configuration(report: &mut DoctorReport, nrid: &NridLocation) {
    let break_glass = break_glass_file();
    if let Some(text) = bypass::describe(&break_glass) {
        report.problem_if(!matches!(break_glass, BreakGlass::On), "bypass", text);
        report.advise("Remove the file when it is no longer needed.");
    }
    if let Some(problem) = &nrid.problem {
        let text = problem.to_string();
        // The column says `configuration` already.
        report.problem("configuration", text.strip_prefix("configuration ").unwrap_or(&text));
        report.advise(
            "Until the file is valid, no container can be created, and nrid does not start.",
        );
        return;
    }
    let file = nrid.file.as_ref().map(|file| file.display().to_string());
    let file = file.unwrap_or_else(|| "none: defaults".to_owned());
    for mistake in &nrid.mistakes {
        report.problem("configuration", format!("{file}: {mistake}"));
        report.advise("Until it is corrected, reload and restart are refused.");
    }
    report.ok("configuration", file);
    // Missing runtimes are reported by `programs`.
    let missing = missing_paths(&nrid.config, &Environment::of_this_process());
    for missing in missing.iter().filter(|missing| !missing.key.starts_with("runtime")) {
        report.problem("configuration", missing.to_string());
    }
    if nrid.config.disable {
        let text = "disable = true: every verb is a plain call of the real runtime";
        report.note("configuration", text);
    }
}

/// Checks that our programs and the real runtimes are found.
pub(super) fn programs(report: &mut DoctorReport, nrid: &NridLocation) {
    match &nrid.launcher.program {
        Some(program) => report.ok("nrid", program.display().to_string()),
        None => report.problem("nrid", "the program is not found: no container can be created"),
    }
    let nrid_dir = nrid.launcher.program.as_deref().and_then(Path::parent);
    let mut dirs = nrid_dir.into_iter().chain([Path::new(LIBEXEC_DIR)]);
    if !dirs.any(|dir| dir.join(HOOK).is_file()) {
        report.problem(HOOK, format!("it is neither beside nrid nor in {LIBEXEC_DIR}"));
        report.advise(
            "Without the hook, plugins are not notified of containers that are created with `run`, \
             as BuildKit does.",
        );
    }
    let settings = &nrid.config.runtime;
    for path in settings.names.values().map(|named| &named.path).chain(&settings.path) {
        match find(path) {
            Some(found) => report.ok("runtime", found.display().to_string()),
            None => report.problem("runtime", format!("{} is not found", path.display())),
        }
    }
    if settings.path.is_none() {
        match runtime_candidates(settings).iter().find_map(|name| find(name)) {
            Some(found) => {
                report.ok("runtime", format!("{}, the first of the candidates", found.display()));
            }
            None => report.problem("runtime", "none of the candidates is found"),
        }
    }
}

/// Finds a program: an absolute path itself, a bare name in the standard directories.
fn find(name: &Path) -> Option<PathBuf> {
    if name.is_absolute() {
        return name.is_file().then(|| name.to_owned());
    }
    standard_dirs().map(|dir| dir.join(name)).find(|path| path.is_file())
}
