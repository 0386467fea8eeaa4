//! Checks of the running `nrid`: its plugins, and whether its program and its configuration are
//! the installed ones. If no `nrid` runs, the report says why.

use super::finding::DoctorReport;
use crate::{nrid_location::NridLocation, status::duration};
use nri_control::{Inherited, START_FAILURE, Status, printable};
use nri_host::{describe, listener};
use nri_locate::{MAX_CONFIG_FILE, PLUGIN_DIR, read_regular_text};
use rustix::{process::Pid, thread::capabilities};
use std::path::{Path, PathBuf};

/// Checks an `nrid` that runs.
pub(super) fn running(report: &mut DoctorReport, nrid: &NridLocation, status: &Status) {
    let (pid, version, containers) = (status.pid, &status.version, status.containers);
    report.ok("nrid", format!("process {pid}, version {version}, {containers} containers"));
    if status.mode == "shadow" {
        report.note(
            "mode",
            "shadow: plugins are called, what they would change is logged, and nothing changes",
        );
        report.advise("Set mode = \"apply\", and `nrictl reload`, to apply changes.");
    }
    program(report, nrid, status);
    configuration(report, nrid, status);
    for Inherited { what, effect, remedy } in &status.inherited {
        report.note("inherited", format!("{what}; {effect}"));
        report.advise(printable(remedy));
    }
    for plugin in &status.plugins {
        let name = if plugin.name.is_empty() { "(not registered yet)" } else { &plugin.name };
        match &plugin.last_error {
            Some(error) if plugin.state != "active" => {
                report.problem("plugin", format!("{name}: {} ({error})", plugin.state));
            }
            Some(error) => report.ok("plugin", format!("{name}: {} ({error})", plugin.state)),
            None => report.ok("plugin", format!("{name}: {}", plugin.state)),
        }
    }
    unlimited_plugins(report, status);
    if let (Some(dir), Some(error)) = (&status.plugin_dir, &status.plugin_dir_error) {
        report.problem("plugin directory", format!("{}: {error}", dir.as_path().display()));
        report.advise("Until it can be read, plugins that end are not restarted.");
    }
    for due in &status.due {
        let state = match due.change.as_str() {
            "launch" | "unusable" => "not launched",
            "relaunch" => "runs with an outdated configuration",
            _ => "still runs",
        };
        let text = format!("{}: {state}: {}", due.name, due.why);
        report.problem_if(due.change == "unusable", "plugin", text);
        report.advise("`nrictl reload`");
    }
    for problem in &status.problems {
        report.problem("nrid", problem.clone());
    }
    policies(report, nrid, &status.idle_policies);
}

/// Reports launched plugins that have all capabilities of `nrid`, since no policy limits them.
fn unlimited_plugins(report: &mut DoctorReport, status: &Status) {
    let permitted = |pid: u32| {
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        Some(capabilities(Some(pid)).ok()?.permitted)
    };
    let Some(all) = permitted(status.pid).filter(|all| !all.is_empty()) else { return };
    let launched = status.plugins.iter().filter(|plugin| plugin.launched);
    let names: Vec<&str> = launched
        .filter(|plugin| plugin.pid.and_then(permitted).is_some_and(|own| own.contains(all)))
        .map(|plugin| &*plugin.name)
        .collect();
    if names.is_empty() {
        return;
    }
    report.note(
        "privileges",
        format!("{}: launched with all capabilities of nrid", names.join(", ")),
    );
    report.advise(
        "No policy limits them: set `capabilities` in their policies. docs/security.md says which \
         capabilities plugins need.",
    );
}

/// Reports an `nrid` that listens but does not reply.
pub(super) fn unresponsive(report: &mut DoctorReport, nrid: &NridLocation, why: &str) {
    let socket = nrid.launcher.socket();
    report.problem("nrid", format!("{why} ({})", socket.display()));
    // systemd (process 1) holds the socket of an nrid that it starts on the first connection.
    let process = match listener(&socket) {
        Some(pid) if pid > 1 => describe(pid),
        _ => "the process that listens".to_owned(),
    };
    report.advise(format!(
        "No container can be created until nrid replies. If it hangs, end {process}: the next \
         call starts another nrid, and containers keep running."
    ));
}

/// Compares the program of `nrid` with the installed one.
fn program(report: &mut DoctorReport, nrid: &NridLocation, status: &Status) {
    let own_version = env!("CARGO_PKG_VERSION");
    if let Some(error) = &status.restart_error {
        report.problem(
            "nrid",
            format!("the last restart failed, and the previous nrid keeps running: {error}"),
        );
        report.advise("`nrictl restart` tries again.");
    }
    let running = status.program.as_ref().map(|program| program.as_path().to_owned());
    let shown = running.as_deref().unwrap_or(Path::new("its program")).display();
    if status.program_replaced {
        report.problem("nrid", format!("{shown} was replaced or removed since nrid started"));
        report.advise("`nrictl restart`: containers keep running, records stay.");
    } else if status.version != own_version {
        report.problem(
            "nrid",
            format!("its version differs from that of this nrictl, {own_version}"),
        );
        report.advise(
            "`nrictl restart`, if the nrid beside this nrictl is the right one; containers keep \
             running.",
        );
    }
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if let (Some(running), Some(found)) = (&running, &nrid.launcher.program)
        && real(running) != real(found)
    {
        let found = found.display();
        report.note("nrid", format!("it runs from {shown}, but this nrictl would start {found}"));
    }
}

/// Compares the configuration of `nrid` with the current file.
fn configuration(report: &mut DoctorReport, nrid: &NridLocation, status: &Status) {
    let file = status.config.as_ref().map(|config| config.as_path().to_owned());
    // An older nrid does not report a digest.
    if nrid.problem.is_some() || (file.is_some() && status.config_digest.is_none()) {
        return;
    }
    let name = |file: &Option<PathBuf>| {
        file.as_ref().map_or("none".to_owned(), |file| file.display().to_string())
    };
    if file != nrid.file {
        let text =
            format!("nrid has read {}, but this nrictl has read {}", name(&file), name(&nrid.file));
        report.problem("configuration", text);
        report.advise(
            "`nrictl reload` if a file was added or removed; else the environment or a unit names \
             another file.",
        );
    } else if status.config_digest != nrid.digest {
        let text = format!("{} differs from the configuration that nrid has read", name(&file));
        report.problem("configuration", text);
        report.advise("`nrictl reload`");
    }
}

/// Reports why no `nrid` runs, and policies that match no file of the plugin directory.
pub(super) fn not_running(report: &mut DoctorReport, nrid: &NridLocation) {
    let failure = nrid.launcher.state_dir.join(START_FAILURE);
    match read_regular_text(&failure, MAX_CONFIG_FILE) {
        Ok(why) => {
            let time = std::fs::metadata(&failure).and_then(|meta| meta.modified()).ok();
            let age = time.and_then(|time| time.elapsed().ok());
            let ago = age.map_or(String::new(), |age| format!(" {} ago", duration(age.as_secs())));
            let why = why.trim_end();
            report.problem("nrid", format!("it is not running: its last start failed{ago}: {why}"));
            report.advise("`nrictl start` tries again; until then no container can be created.");
        }
        Err(_) => {
            let socket = nrid.launcher.socket();
            report.note("nrid", format!("it is not running ({})", socket.display()));
            report.advise(
                "The first container starts it. For external plugins, `nrictl start` starts it \
                 earlier.",
            );
        }
    }
    if nrid.problem.is_none() {
        let dir = nrid.config.plugin_path.clone().unwrap_or_else(|| PLUGIN_DIR.into());
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let names: Vec<_> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
        let matches = |pattern: &str, file: &String| {
            file == pattern || file.split_once('-').is_some_and(|(_, name)| name == pattern)
        };
        let is_idle =
            |pattern: &String| pattern != "*" && !names.iter().any(|file| matches(pattern, file));
        let patterns = nrid.config.plugin.iter().map(|policy| policy.pattern.clone());
        policies(report, nrid, &patterns.filter(is_idle).collect::<Vec<_>>());
    }
}

/// Reports policies that match no plugin.
fn policies(report: &mut DoctorReport, nrid: &NridLocation, idle: &[String]) {
    for name in idle {
        let is_required = nrid.config.plugin.iter().any(|p| p.pattern == *name && p.required);
        let effect = match is_required {
            true => "it is required: no container is created",
            false => "the policy has no effect",
        };
        let text = format!("[[plugin]] match = {name:?}: there is no such plugin; {effect}");
        report.problem_if(is_required, "policy", text);
        report.advise(
            "Correct the name (`nrictl status` lists plugins), unless the plugin has not connected \
             yet.",
        );
    }
}
