//! Checks of plugins: sessions, files of the plugin directory, policies.
//!
//! `nrid` decides what a reload would do with each file; this module only reports it, so that
//! `doctor` and `reload` agree.

use super::{
    finding::DoctorReport,
    kinds::{
        PLUGIN_ACTIVE, PLUGIN_CONFIG_HIDDEN, PLUGIN_CONFIG_REFUSED, PLUGIN_DIR_UNREADABLE,
        PLUGIN_FAILED, PLUGIN_IGNORED, PLUGIN_LEFT, PLUGIN_LIMITED, PLUGIN_MISSED,
        PLUGIN_NOT_ACTIVE, PLUGIN_NOT_REQUIRED, PLUGIN_REFUSED, PLUGIN_RELOAD_DUE,
        PLUGIN_REQUIRED_MISSING, PLUGIN_RUNS_UNUSABLE, PLUGIN_STARTING, PLUGIN_TWICE,
        PLUGIN_UNLIMITED, PLUGIN_UNUSABLE, PLUGIN_WARNING, PLUGIN_WITHHELD, POLICY_UNMATCHED,
    },
};
use crate::{
    nrid_location::NridLocation,
    reload::hidden_configurations,
    status::{describe_budget, describe_missed},
};
use nri_config::Config;
use nri_control::{PluginChange, PluginStatus, Status};
use nri_locate::{CONFIG_FILE, Environment, UserDirs};
use rustix::{process::Pid, thread::capabilities};
use std::{collections::BTreeSet, path::Path, time::SystemTime};

/// What a reload does with a plugin that an engine launches, and of which only one instance may
/// run.
const WITHHELD: &str = "withheld";

/// Name of the event of validators in a status.
const VALIDATION: &str = "VALIDATE_CONTAINER_ADJUSTMENT";
/// Number of events of the protocol.
const EVENTS: usize = 14;

/// Checks the plugins of an `nrid` that runs.
pub(super) fn plugins(report: &mut DoctorReport, nrid: &NridLocation, status: &Status) {
    for plugin in &status.plugins {
        // What a reload does with the file of a plugin that has ended says why, and what to do.
        let is_due = plugin.launched && plugin.has_ended() && due(status, plugin).is_some();
        let is_withheld = |c: &PluginChange| c.change == WITHHELD && c.name == plugin.name;
        let is_due = is_due || status.ignored.iter().any(is_withheld);
        if !is_due || plugin.replacement_refused {
            session(report, plugin);
        }
    }
    unlimited(report, nrid, status);
    if let (Some(dir), Some(error)) = (&status.plugin_dir, &status.plugin_dir_error) {
        report.add(PLUGIN_DIR_UNREADABLE, format!("{}: {error}", dir.as_path().display()));
        report.advise("Until it can be read, plugins that end are not restarted.");
    }
    for change in &status.due {
        file(report, status, change);
    }
    for PluginChange { name, change, why, .. } in &status.ignored {
        if change == WITHHELD {
            report.add(PLUGIN_WITHHELD, format!("{name}: not launched: {why}"));
            continue;
        }
        report.add(PLUGIN_IGNORED, format!("{name}: not launched: {why}"));
        if why == "not executable" {
            report.advise("If it is to run: `chmod +x`, then `nrictl reload`.");
        }
    }
    for plugin in status.plugins.iter().filter(|plugin| !plugin.has_ended()) {
        for warning in &plugin.warnings {
            report.add(PLUGIN_WARNING, format!("{}: {warning}", plugin.name));
            let file = plugin.config.as_ref().map(|file| file.as_path().display().to_string());
            let file = file.map_or_else(String::new, |file| format!(" Its configuration: {file}."));
            report.advise(format!("`nrictl logs` has what it wrote.{file}"));
        }
    }
    for hidden in hidden_configurations(&status.plugins) {
        report.add(PLUGIN_CONFIG_HIDDEN, hidden);
        report.advise("Remove one of the two files, then `nrictl reload`.");
    }
    for missed in &status.missed {
        report.add(PLUGIN_MISSED, describe_missed(missed));
        report.advise(
            "`nrictl containers` shows which (MISSED). Start them again (`docker restart`), or \
             create them again.",
        );
    }
    for name in &status.missing_required {
        required(report, status, name);
    }
    not_required(report, nrid, status);
    let is_reported = |name: &&String| !status.missing_required.contains(*name);
    unmatched(report, nrid, status.idle_policies.iter().filter(is_reported));
}

/// Reports one session, or a connection without a session.
fn session(report: &mut DoctorReport, plugin: &PluginStatus) {
    let PluginStatus { name, state, last_error, .. } = plugin;
    let error = last_error.as_ref().map_or(String::new(), |error| format!(" ({error})"));
    let about_process = plugin.pid.map_or(String::new(), |pid| format!(" (process {pid})"));
    if plugin.has_ended() {
        if plugin.replacement_refused {
            let why = last_error.as_deref().unwrap_or("a second session was refused");
            report.add(PLUGIN_TWICE, format!("{name}: {why}"));
            report.advise("Containers are created with the session that has the name.");
        } else if plugin.launched {
            let output = last_output(plugin);
            report.add(PLUGIN_NOT_ACTIVE, format!("{name}: {state}{error}{output}"));
            report.advise(
                "Containers are created without it, or refused if it is required. `nrictl logs` \
                 has its output; `nrictl reload` launches it again.",
            );
        } else if name.is_empty() {
            let text = format!("a connection{about_process} did not become a plugin{error}");
            report.add(PLUGIN_REFUSED, text);
        } else {
            report.add(PLUGIN_LEFT, format!("{name}: has left{error}"));
        }
    } else if state != "active" {
        let name = if name.is_empty() { "(not registered yet)" } else { name };
        report.add(PLUGIN_STARTING, format!("{name}: {state}{error}"));
    } else if let (Some(budget), Some(_)) = (&plugin.budget, plugin.limit()) {
        let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        let text = describe_budget(budget, now).unwrap_or_default();
        report.add(PLUGIN_LIMITED, format!("{name}: {text}"));
        report.advise(
            "Containers are created without it meanwhile: `nrictl plugins` has its times, \
             `nrictl logs` its output. If they must not be, set `required` instead of `budget`.",
        );
    } else if last_error.is_some() {
        report.add(PLUGIN_FAILED, format!("{name}: active, but a call has failed{error}"));
        report.advise("`nrictl logs` says which container was created without it, or was refused.");
    } else {
        report.add(PLUGIN_ACTIVE, format!("{name}: active"));
    }
}

/// Returns the last line that a launched plugin wrote, as the end of a text.
fn last_output(plugin: &PluginStatus) -> String {
    plugin.last_output.as_ref().map_or(String::new(), |line| format!("; last output: {line}"))
}

/// Reports a file of the plugin directory with which a reload would do something.
fn file(report: &mut DoctorReport, status: &Status, due: &PluginChange) {
    let PluginChange { name, change, why, .. } = due;
    let of_file = |plugin: &&PluginStatus| plugin.launched && plugin.name == *name;
    let plugin = status.plugins.iter().find(of_file);
    let runs = plugin.is_some_and(|plugin| !plugin.has_ended());
    let last_error = plugin.and_then(|plugin| plugin.last_error.as_deref());
    let ended = last_error.filter(|error| !runs && !why.contains(*error));
    let ended = ended.map_or(String::new(), |error| format!(" ({error})"));
    match change.as_str() {
        "unusable" if runs => {
            report
                .add(PLUGIN_RUNS_UNUSABLE, format!("{name}: runs, but its file is refused: {why}"));
            report.advise(
                "Once it ends, it is not launched again. Correct that, then `nrictl reload`.",
            );
        }
        "unusable" => {
            report.add(PLUGIN_UNUSABLE, format!("{name}: not launched: {why}{ended}"));
            report.advise("Correct that, then `nrictl reload`.");
        }
        "refused" => {
            report.add(
                PLUGIN_CONFIG_REFUSED,
                format!(
                    "{name}: runs with its previous configuration, it refused the current one: \
                     {why}"
                ),
            );
            report.advise(
                "Correct its .conf, then `nrictl reload`. If it ends before, it is not active \
                 until then.",
            );
        }
        "launch" if plugin.is_some() => {
            let output = plugin.map_or(String::new(), last_output);
            report.add(PLUGIN_NOT_ACTIVE, format!("{name}: not active: {why}{ended}{output}"));
            report.advise("`nrictl reload` launches it.");
        }
        change => {
            let state = match change {
                "launch" => "not launched",
                "relaunch" => "runs with an outdated configuration",
                _ if runs => "still runs",
                _ => "does not run any more",
            };
            report.add(PLUGIN_RELOAD_DUE, format!("{name}: {state}: {why}{ended}"));
            report.advise("`nrictl reload`");
        }
    }
}

/// Returns what a reload would do with the file of a launched plugin.
fn due<'a>(status: &'a Status, plugin: &PluginStatus) -> Option<&'a PluginChange> {
    status.due.iter().find(|due| due.name == plugin.name)
}

/// Reports a policy with `required` that no active plugin matches.
fn required(report: &mut DoctorReport, status: &Status, name: &str) {
    let plugin = match name {
        "*" => "any plugin".to_owned(),
        name => format!("the plugin {name:?}"),
    };
    if status.mode == "shadow" {
        let text = format!("{plugin} is required and not active: ignored in shadow mode");
        return report.add(POLICY_UNMATCHED, text);
    }
    report.add(
        PLUGIN_REQUIRED_MISSING,
        format!("{plugin} is required and not active: creations of containers are refused"),
    );
    report.advise(
        "Start the plugin, or correct the name in its [[plugin]] (`nrictl status` lists plugins), \
         or remove `required` there, and `nrictl reload`.",
    );
}

/// Reports plugins that refuse containers, and that no policy requires. A plugin that is subscribed
/// to all events, as loggers are, counts only if it asks for failed requests.
fn not_required(report: &mut DoctorReport, nrid: &NridLocation, status: &Status) {
    if status.mode == "shadow" {
        return;
    }
    let validates = |plugin: &PluginStatus| {
        plugin.events.len() < EVENTS && plugin.events.iter().any(|event| event == VALIDATION)
    };
    let mut names = BTreeSet::new();
    for plugin in &status.plugins {
        let requested = plugin.failure_policy.as_ref().and_then(|policy| policy.requested);
        let what = match requested {
            Some(requested) if requested.fail_request => "asks that requests fail without it",
            _ if validates(plugin) => "validates containers",
            _ => continue,
        };
        let name = &plugin.name;
        if is_required(&nrid.config, name) || !names.insert(name) {
            continue;
        }
        let text = format!(
            "{name}: {what}, and is not required: while it is not connected, containers are \
             created without it"
        );
        report.add(PLUGIN_NOT_REQUIRED, text);
        let file = nrid.file.as_deref().unwrap_or(Path::new(CONFIG_FILE)).display();
        let bare = name.split_once('-').map_or(name.as_str(), |(_, bare)| bare);
        report.advise(format!(
            "Set `required = true` in [[plugin]] match = {bare:?} of {file}, then `nrictl \
             reload`. A new policy replaces that of \"*\" as a whole: repeat its keys."
        ));
    }
}

/// Whether creations are refused while the plugin `NN-name` is not connected. A policy for all
/// plugins is satisfied by any other.
fn is_required(config: &Config, name: &str) -> bool {
    let bare = name.split_once('-').map(|(_, bare)| bare);
    let is_it = |pattern: &str| pattern == name || Some(pattern) == bare;
    let validator = &config.default_validator;
    let by_validator = validator.enable && validator.required_plugins.iter().any(|p| is_it(p));
    by_validator || config.plugin.iter().any(|policy| policy.required && is_it(&policy.pattern))
}

/// Reports policies that match no file of the plugin directory, while no `nrid` runs.
pub(super) fn policies_without_nrid(report: &mut DoctorReport, nrid: &NridLocation) {
    if nrid.problem.is_some() {
        return;
    }
    let dirs = nrid.plugin_dirs.all();
    let entries = dirs.flat_map(std::fs::read_dir).flatten().flatten();
    let names: Vec<_> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
    let matches = |pattern: &str, file: &String| {
        file == pattern || file.split_once('-').is_some_and(|(_, name)| name == pattern)
    };
    let is_idle =
        |pattern: &&String| *pattern != "*" && !names.iter().any(|file| matches(pattern, file));
    let patterns = nrid.config.plugin.iter().map(|policy| &policy.pattern);
    unmatched(report, nrid, patterns.filter(is_idle));
}

/// Reports policies that match no plugin.
fn unmatched<'a>(
    report: &mut DoctorReport,
    nrid: &NridLocation,
    names: impl Iterator<Item = &'a String>,
) {
    for name in names {
        let is_required = nrid.config.plugin.iter().any(|p| p.pattern == *name && p.required);
        let effect = if is_required {
            "it is required: creations are refused until such a plugin is active"
        } else {
            "the policy has no effect"
        };
        let text = format!("[[plugin]] match = {name:?}: there is no such plugin; {effect}");
        report.add(POLICY_UNMATCHED, text);
        report.advise(
            "Correct the name (`nrictl status` lists plugins), unless the plugin has not connected \
             yet.",
        );
    }
}

/// Reports launched plugins that have all capabilities of `nrid`, since no policy limits them. The
/// capabilities of a user's `nrid` are those in the user namespace of the engine, over what belongs
/// to the user.
fn unlimited(report: &mut DoctorReport, nrid: &NridLocation, status: &Status) {
    if UserDirs::of_this_process(&Environment::of_this_process()).is_some() {
        return;
    }
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
    let text = format!("{}: launched with all capabilities of nrid", names.join(", "));
    report.add(PLUGIN_UNLIMITED, text);
    let file = nrid.file.as_deref().unwrap_or(Path::new(CONFIG_FILE)).display();
    report.advise(format!(
        "Add `capabilities = []` and `no_new_privs = true` to its [[plugin]] in {file}, then \
         `nrictl reload`. Of several that match it, only the most specific counts. \
         docs/reference/plugins.md says which plugins need capabilities."
    ));
}
