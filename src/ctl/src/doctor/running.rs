//! The `nrid` that runs, and whether it is the one that would be started now; or why none runs.

use super::{Level, Report};
use crate::place::Place;
use nri_control::{START_FAILURE, Status};
use nri_host::{describe, listener};
use nri_locate::PLUGIN_DIR;
use std::path::{Path, PathBuf};

/// About one that runs, or about none.
pub(super) fn look(report: &mut Report, place: &Place, status: Option<&Status>) {
    let Some(status) = status else { return absent(report, place) };
    let text = format!(
        "process {}, version {}, {} containers",
        status.pid, status.version, status.containers
    );
    report.add(Level::Ok, "nrid", text);
    if status.mode == "shadow" {
        report.add(
            Level::Note,
            "mode",
            "shadow: plugins are asked, what they would change is logged, and nothing changes",
        );
        report.advise("Set mode = \"apply\", and `nrictl reload`, to have it changed.");
    }
    program(report, place, status);
    configuration(report, place, status);
    for plugin in &status.plugins {
        let name = if plugin.name.is_empty() { "(not registered yet)" } else { &plugin.name };
        let fine = plugin.state == "active" || plugin.last_error.is_none();
        let error = plugin.last_error.as_deref().map(|e| format!(" ({e})")).unwrap_or_default();
        let level = if fine { Level::Ok } else { Level::Problem };
        report.add(level, "plugin", format!("{name}: {}{error}", plugin.state));
    }
    for due in &status.due {
        let what = match due.change.as_str() {
            "launch" | "unusable" => "not launched",
            "relaunch" => "runs as it was launched",
            _ => "still runs",
        };
        let level = if due.change == "unusable" { Level::Problem } else { Level::Note };
        report.add(level, "plugin", format!("{}: {what}: {}", due.name, due.why));
        report.advise("`nrictl reload`");
    }
    policies(report, place, &status.idle_policies);
}

/// About one that listens and does not say how it is.
pub(super) fn unheard(report: &mut Report, place: &Place, why: &str) {
    report.add(Level::Problem, "nrid", format!("{why} ({})", place.launcher.socket().display()));
    // systemd listens for one that it is to start.
    let process = match listener(&place.launcher.socket()) {
        Some(pid) if pid > 1 => describe(pid),
        _ => "that process".to_owned(),
    };
    report.advise(format!("No container can be created while it is so. End {process} if it hangs: the next call starts another one, and containers go on."));
}

/// Whether it is the program that is installed.
fn program(report: &mut Report, place: &Place, status: &Status) {
    let ours = env!("CARGO_PKG_VERSION");
    if let Some(error) = &status.restart_error {
        report.add(
            Level::Problem,
            "nrid",
            format!("it goes on as it was, since its successor failed: {error}"),
        );
        report.advise("`nrictl restart` tries again.");
    }
    let running = status.program.as_ref().map(|p| p.as_path().to_owned());
    let shown = running.as_deref().unwrap_or(Path::new("its program")).display();
    if status.program_replaced {
        report.add(
            Level::Problem,
            "nrid",
            format!("{shown} was replaced or removed since it started"),
        );
        report.advise("`nrictl restart`: containers go on, records are kept.");
    } else if status.version != ours {
        report.add(
            Level::Problem,
            "nrid",
            format!("it is of another version than this nrictl ({ours})"),
        );
        report.advise(
            "`nrictl restart`, if the nrid beside this nrictl is the right one; containers go on.",
        );
    }
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if let (Some(running), Some(found)) = (&running, &place.launcher.program)
        && real(running) != real(found)
    {
        report.add(
            Level::Note,
            "nrid",
            format!("it runs from {shown}, and this nrictl would start {}", found.display()),
        );
    }
}

/// Whether it has the configuration that is there now.
fn configuration(report: &mut Report, place: &Place, status: &Status) {
    let theirs = status.config.as_ref().map(|c| c.as_path().to_owned());
    // Older ones do not say what they read.
    if place.problem.is_some() || (theirs.is_some() && status.config_digest.is_none()) {
        return;
    }
    let name = |file: &Option<PathBuf>| {
        file.as_ref().map_or("none".to_owned(), |f| f.display().to_string())
    };
    if theirs == place.file {
        if status.config_digest != place.digest {
            let text = format!("{} is another one than nrid has", name(&theirs));
            report.add(Level::Problem, "configuration", text);
            report.advise("`nrictl reload`");
        }
        return;
    }
    let text = format!("nrid has {}, and this nrictl {}", name(&theirs), name(&place.file));
    report.add(Level::Problem, "configuration", text);
    report.advise(
        "`nrictl reload` if a file came or went; else the environment or a unit names another one.",
    );
}

/// Why none runs, and what would keep it from starting.
fn absent(report: &mut Report, place: &Place) {
    let failure = place.launcher.state_dir.join(START_FAILURE);
    match std::fs::read_to_string(&failure) {
        Ok(why) => {
            let when = std::fs::metadata(&failure).and_then(|m| m.modified()).ok();
            let ago = when.and_then(|when| when.elapsed().ok());
            let ago = ago.map_or(String::new(), |ago| {
                format!(" {} ago", crate::status::duration(ago.as_secs()))
            });
            let text = format!("it does not run: its last start failed{ago}: {}", why.trim_end());
            report.add(Level::Problem, "nrid", text);
            report.advise("`nrictl start` tries again; until then containers fail to be created.");
        }
        Err(_) => {
            let text = format!("it does not run ({})", place.launcher.socket().display());
            report.add(Level::Note, "nrid", text);
            report.advise(
                "The first container starts it. `nrictl start` does so for plugins that connect by themselves.",
            );
        }
    }
    if place.problem.is_none() {
        let dir = place.config.plugin_path.clone().unwrap_or_else(|| PLUGIN_DIR.into());
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let names: Vec<_> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
        let is_idle = |pattern: &str| {
            let of = |file: &String| {
                file == pattern || file.split_once('-').is_some_and(|(_, n)| n == pattern)
            };
            pattern != "*" && !names.iter().any(of)
        };
        let patterns = place.config.plugin.iter().map(|p| p.pattern.clone());
        let idle: Vec<_> = patterns.filter(|pattern| is_idle(pattern)).collect();
        policies(report, place, &idle);
    }
}

/// Policies that are about nobody.
fn policies(report: &mut Report, place: &Place, idle: &[String]) {
    for name in idle {
        let required = place.config.plugin.iter().any(|p| p.pattern == *name && p.required);
        let level = if required { Level::Problem } else { Level::Note };
        let holds = if required {
            "it is required: no container is created"
        } else {
            "what is said of it holds for nobody"
        };
        report.add(
            level,
            "policy",
            format!("[[plugin]] match = {name:?}: there is no such plugin; {holds}"),
        );
        report.advise("Mend the name (`nrictl status` shows those that there are), unless it is of a plugin that is still to connect.");
    }
}
