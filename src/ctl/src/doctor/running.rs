//! Checks of the running `nrid`: whether its program and its configuration are the installed ones,
//! and what limits it. If no `nrid` runs, the report says why. `plugins` checks its plugins.

use super::{
    finding::DoctorReport,
    kinds::{
        BUNDLES_EDITED, CONFIG_OTHER_FILE, CONFIG_OUTDATED, INHERITED, NRID_ENDED,
        NRID_ENDED_EARLIER, NRID_LIMITED, NRID_MISSING, NRID_NOT_RUNNING, NRID_OTHER_PROGRAM,
        NRID_OTHER_VERSION, NRID_REPLACED, NRID_RESTART_FAILED, NRID_RUNNING, NRID_START_FAILED,
        NRID_UNRESPONSIVE, SHADOW_MODE,
    },
    left_containers, unclean_end,
};
use crate::{nrid_location::NridLocation, status::duration, units::counted};
use nri_control::{Inherited, Status};
use nri_files::{LOG_FILE, NridLife, START_FAILURE};
use nri_host::{describe, is_stopped, listener_unnoticed};
use nri_locate::{MAX_CONFIG_FILE, read_regular_text};
use std::{
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// Time in seconds for which an end of `nrid` that was not clean is a warning: a day.
const RECENT: u64 = 86_400;

/// Checks an `nrid` that runs.
pub(super) fn running(report: &mut DoctorReport, nrid: &NridLocation, status: &Status) {
    let (pid, version, containers) = (status.pid, &status.version, status.containers);
    let containers = counted(containers, "container");
    report.add(NRID_RUNNING, format!("process {pid}, version {version}, {containers}"));
    if status.mode == "shadow" {
        report.add(
            SHADOW_MODE,
            "shadow: plugins are called, what they would change is logged, and nothing changes",
        );
        report.advise("Set mode = \"apply\", and `nrictl reload`, to apply changes.");
    }
    unclean_end(report, status);
    program(report, nrid, status);
    configuration(report, nrid, status);
    for Inherited { what, effect, remedy } in &status.inherited {
        report.add(INHERITED, format!("{what}; {effect}"));
        report.advise(remedy);
    }
    for problem in &status.problems {
        report.add(NRID_LIMITED, problem.clone());
    }
    if status.with_edited_bundle > 0 {
        let containers = counted(status.with_edited_bundle, "container");
        report.add(
            BUNDLES_EDITED,
            format!(
                "{containers} of a version before 0.1.0, which changed the config.json of bundles"
            ),
        );
        report.advise("It stays so, also after their deletion; a container created anew has none.");
    }
}

/// Reports an `nrid` that listens but does not reply.
pub(super) fn unresponsive(report: &mut DoctorReport, nrid: &NridLocation, why: &str) {
    let socket = nrid.launcher.socket();
    let shown = socket.display();
    // systemd (process 1) holds the socket of an nrid that it starts on the first connection.
    let pid = listener_unnoticed(&socket, &[]).filter(|pid| *pid > 1);
    if let Some(pid) = pid.filter(|pid| is_stopped(*pid)) {
        let process = describe(pid);
        report.add(
            NRID_UNRESPONSIVE,
            format!("{process} does not reply: it is stopped (SIGSTOP or a debugger) ({shown})"),
        );
        report.advise(format!(
            "`kill -CONT {pid}` lets it continue. No container can be created until then."
        ));
        return;
    }
    report.add(NRID_UNRESPONSIVE, format!("{why} ({shown})"));
    let process = match pid {
        Some(pid) => format!("{} (`kill -KILL {pid}`)", describe(pid)),
        None => "the process that listens".to_owned(),
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
        report.add(
            NRID_RESTART_FAILED,
            format!("the last restart failed, and the previous nrid keeps running: {error}"),
        );
        report.advise("`nrictl restart` tries again.");
    }
    let running = status.program.as_ref().map(|program| program.as_path().to_owned());
    let shown = running.as_deref().unwrap_or(Path::new("its program")).display();
    if status.program_replaced {
        report.add(NRID_REPLACED, format!("{shown} was replaced or removed since nrid started"));
        report.advise("`nrictl restart`: containers keep running, records stay.");
    } else if status.version != own_version {
        report.add(
            NRID_OTHER_VERSION,
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
        report.add(
            NRID_OTHER_PROGRAM,
            format!("it runs from {shown}, but this nrictl would start {found}"),
        );
    }
}

/// Compares the configuration of `nrid` with the current file.
fn configuration(report: &mut DoctorReport, nrid: &NridLocation, status: &Status) {
    if !nrid.is_outdated(status) {
        return;
    }
    let file = status.config.as_ref().map(|config| config.as_path().to_owned());
    let name = |file: &Option<PathBuf>| {
        file.as_ref().map_or("none".to_owned(), |file| file.display().to_string())
    };
    if file != nrid.file {
        let text =
            format!("nrid has read {}, but this nrictl has read {}", name(&file), name(&nrid.file));
        report.add(CONFIG_OTHER_FILE, text);
        report.advise(
            "`nrictl reload` if a file was added or removed; else the environment or a unit names \
             another file.",
        );
    } else {
        let text = format!("{} differs from the configuration that nrid has read", name(&file));
        report.add(CONFIG_OUTDATED, text);
        report.advise("`nrictl reload`");
    }
}

/// Reports why no `nrid` runs, and how the last one has ended if that was not clean.
pub(super) fn not_running(report: &mut DoctorReport, nrid: &NridLocation) {
    let state_dir = &nrid.launcher.state_dir;
    if let Some(end) = NridLife::read(state_dir).and_then(|life| life.end(state_dir)) {
        report.add(NRID_ENDED, unclean_end::describe(&end));
        report.advise(unclean_end::ADVICE);
    }
    let containers = match left_containers::count(state_dir) {
        0 => None,
        1 => Some("a container of it runs".to_owned()),
        n => Some(format!("{n} containers of it run")),
    };
    let failure = state_dir.join(START_FAILURE);
    if let Ok(why) = read_regular_text(&failure, MAX_CONFIG_FILE) {
        let time = std::fs::metadata(&failure).and_then(|meta| meta.modified()).ok();
        let age = time.and_then(|time| time.elapsed().ok());
        let ago = age.map_or(String::new(), |age| format!(" {} ago", duration(age.as_secs())));
        let why = why.trim_end();
        let containers = containers.map(|text| format!("{text}, and ")).unwrap_or_default();
        report.add(
            NRID_START_FAILED,
            format!("{containers}it is not running: its last start failed{ago}: {why}"),
        );
        let log = state_dir.join(LOG_FILE);
        let log =
            if log.exists() { format!(" Its log is {}.", log.display()) } else { String::new() };
        report.advise(format!(
            "`nrictl start` tries again; until then no container can be created.{log}"
        ));
        return;
    }
    let socket = nrid.launcher.socket();
    match containers {
        Some(containers) => {
            report.add(
                NRID_MISSING,
                format!("it is not running ({}), and {containers}", socket.display()),
            );
            report.advise(
                "`nrictl start`: until then the ends of these containers are not noticed, and \
                 plugins cannot update them.",
            );
        }
        None => {
            report.add(NRID_NOT_RUNNING, format!("it is not running ({})", socket.display()));
            report.advise(
                "The first container starts it. For external plugins, `nrictl start` starts it \
                 earlier.",
            );
        }
    }
}

/// Reports that an earlier `nrid` has ended without a clean stop: a warning for a day.
fn unclean_end(report: &mut DoctorReport, status: &Status) {
    let Some(end) = &status.unclean_end else { return };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let is_recent = now.saturating_sub(end.next_start) < RECENT;
    report.add(if is_recent { NRID_ENDED } else { NRID_ENDED_EARLIER }, unclean_end::describe(end));
    report.advise(unclean_end::ADVICE);
}
