//! The output of `nrictl status`.

use crate::{
    bypass,
    doctor::unclean_end,
    error::CtlError,
    exit_code::not_running_unless,
    nrid_location::NridLocation,
    output::output,
    plugin_socket,
    table::{TableForm, TextTable, terminal_width, write_wrapped},
    uncalled::Uncalled,
};
use nri_control::{
    Inherited, MissedContainers, PluginBudget, PluginChange, PluginLimit, PluginStatus,
    PluginSynchronization, Status, answers,
};
use nri_files::{LOG_IDENTIFIER, NridLife, UncleanEnd};
use nri_locate::{BreakGlass, Environment, break_glass_file};
use nri_values::printable;
use std::{
    io::{self, Write},
    process::ExitCode,
    time::SystemTime,
};

/// Asks `nrid` for its status, and prints it.
///
/// # Errors
/// A running `nrid` does not reply, or standard output cannot be written to.
pub(crate) fn run(
    nrid: &NridLocation,
    json: bool,
    form: Option<TableForm>,
) -> Result<ExitCode, CtlError> {
    let (status, uncalled) = Uncalled::with_status(nrid)?;
    print(nrid, status.as_deref(), uncalled, json, form)?;
    Ok(not_running_unless(status.is_some()))
}

/// Prints the status as text or as JSON. The wide form of the text has the events of each plugin.
///
/// # Errors
/// Standard output cannot be written to.
pub(crate) fn print(
    nrid: &NridLocation,
    status: Option<&Status>,
    uncalled: Option<Uncalled>,
    json: bool,
    form: Option<TableForm>,
) -> io::Result<()> {
    let mut out = output();
    let uncalled = uncalled.map(|uncalled| uncalled.to_string());
    let break_glass = break_glass_file(&Environment::of_this_process(), answers);
    let bypassed = matches!(break_glass, BreakGlass::On(_));
    if json {
        let value = match status {
            Some(status) => {
                serde_json::json!({
                    "running": true, "bypass": bypassed, "status": status, "uncalled": uncalled
                })
            }
            None => serde_json::json!({
                "running": false, "bypass": bypassed, "uncalled": uncalled,
                "unclean_end": end_of_last(nrid),
            }),
        };
        return writeln!(out, "{value}");
    }
    if let Some(text) = bypass::describe(&break_glass) {
        writeln!(out, "bypass           {}", printable(&text))?;
    }
    let Some(status) = status else {
        writeln!(out, "nrid is not running ({})", nrid.launcher.socket().display())?;
        let end = end_of_last(nrid).map(|end| unclean_end::describe(&end));
        let mut lines = end.into_iter().chain(uncalled);
        return lines.try_for_each(|line| writeln!(out, "{}", printable(&line)));
    };
    writeln!(out, "nrid {} (pid {}, up {})", status.version, status.pid, duration(status.uptime))?;
    writeln!(out, "state directory  {}", nrid.launcher.state_dir.display())?;
    let config = status
        .config
        .as_ref()
        .map_or("none: defaults".into(), |c| c.0.to_string_lossy().into_owned());
    writeln!(out, "configuration    {config}")?;
    if nrid.is_outdated(status) {
        writeln!(out, "                 the file has changed since: nrictl reload")?;
    }
    if status.mode == "shadow" {
        writeln!(
            out,
            "mode             shadow: plugins are called, and containers are not changed"
        )?;
    }
    for socket in &status.sockets {
        writeln!(out, "plugin socket    {}", socket.0.to_string_lossy())?;
    }
    if let Some(text) = plugin_socket::of_other(status) {
        writeln!(out, "                 not {text}")?;
    }
    writeln!(out, "pods             {}", status.pods)?;
    writeln!(out, "containers       {}", containers(status))?;
    for missed in &status.missed {
        writeln!(out, "missed           {}", printable(&describe_missed(missed)))?;
    }
    if let Some(address) = &status.metrics {
        writeln!(out, "metrics          {}", printable(address))?;
    }
    if let Some(log) = &status.log {
        writeln!(out, "log              {}", printable(&log.0.to_string_lossy()))?;
    }
    match &status.journal_error {
        Some(error) => {
            writeln!(out, "                 journald does not receive: {}", printable(error))?;
        }
        None if status.log_is_journal => {
            writeln!(out, "log              journalctl -t {LOG_IDENTIFIER}")?;
        }
        None => {}
    }
    if let Some(level) = &status.log_level {
        let configured = status.configured_log_level.as_ref();
        let note = configured.map_or_else(String::new, |configured| {
            format!(" (until the next reload; configured: {configured})")
        });
        writeln!(out, "log level        {}{}", printable(level), printable(&note))?;
    }
    if status.program_replaced {
        writeln!(out, "program          was replaced since nrid started: nrictl restart")?;
    }
    let width = terminal_width();
    for Inherited { what, .. } in &status.inherited {
        write_wrapped(&mut out, "inherited        ", what, width)?;
    }
    if let Some(end) = &status.unclean_end {
        write_wrapped(&mut out, "unclean end      ", &unclean_end::describe(end), width)?;
    }
    for problem in &status.problems {
        write_wrapped(&mut out, "problem          ", problem, width)?;
    }
    if let Some(error) = &status.state_dir_error {
        let problem = format!("cannot write a record: {error}");
        write_wrapped(&mut out, "problem          ", &problem, width)?;
    }
    for name in &status.missing_required {
        writeln!(out, "problem          required plugin {name:?} is not active")?;
    }
    plugins(&mut out, status, form)?;
    if let (Some(dir), Some(error)) = (&status.plugin_dir, &status.plugin_dir_error) {
        let dir = dir.0.to_string_lossy();
        writeln!(out, "plugin directory {}: {}", printable(&dir), printable(error))?;
    }
    due(&mut out, status)?;
    uncalled.map_or(Ok(()), |text| writeln!(out, "{}", printable(&text)))
}

/// Returns how the last `nrid` has ended, if that was not clean and none runs.
fn end_of_last(nrid: &NridLocation) -> Option<UncleanEnd> {
    let state_dir = &nrid.launcher.state_dir;
    NridLife::read(state_dir)?.end(state_dir)
}

/// Prints what a reload would do with files of the plugin directory.
fn due(out: &mut impl Write, status: &Status) -> io::Result<()> {
    for PluginChange { name, change, why, .. } in &status.due {
        let runs = status.plugins.iter().any(|p| p.launched && p.name == *name && !p.has_ended());
        let state = match change.as_str() {
            "unusable" if runs => "runs, but its file is refused: ",
            "refused" => "runs with its previous configuration, it refused the current one: ",
            "launch" | "unusable" => "not launched: ",
            _ => "",
        };
        let remedy = match change.as_str() {
            "unusable" => "correct it, then nrictl reload",
            "refused" => "correct its .conf, then nrictl reload",
            _ => "nrictl reload",
        };
        writeln!(out, "{:<24} {state}{}; {remedy}", printable(name), printable(why))?;
    }
    for PluginChange { name, why, .. } in &status.ignored {
        writeln!(out, "{:<24} not launched: {}", printable(name), printable(why))?;
    }
    Ok(())
}

fn plugins(out: &mut impl Write, status: &Status, form: Option<TableForm>) -> io::Result<()> {
    if status.plugins.is_empty() {
        return writeln!(out, "plugins          none");
    }
    let wide = form == Some(TableForm::Wide);
    let mut table = TextTable::new(0);
    table.row(["PLUGIN", "ORIGIN", "PID", "STATE"].into_iter().chain(wide.then_some("EVENTS")));
    for plugin in &status.plugins {
        let origin = if plugin.launched { "launched" } else { "external" };
        let pid = plugin.pid.map_or("-".to_owned(), |p| p.to_string());
        let name = if plugin.name.is_empty() { "-" } else { &plugin.name };
        let events = wide.then(|| plugin.events.join(" "));
        let cells = [name.to_owned(), origin.to_owned(), pid, state(plugin).to_owned()];
        table.row(cells.into_iter().chain(events));
    }
    table.align_right(2);
    writeln!(out)?;
    table.write(out)?;
    for plugin in &status.plugins {
        write_limits(plugin, out)?;
        for line in failures(plugin, SystemTime::now()) {
            writeln!(out, "{}: {}", printable(&plugin.name), printable(&line))?;
        }
    }
    Ok(())
}

/// Returns the state of a plugin for tables: one that requests skip is not simply active.
pub(crate) fn state(plugin: &PluginStatus) -> &str {
    if plugin.limit().is_some() { "limited" } else { &plugin.state }
}

/// Describes the limit of a plugin that exceeds its budget, or why it has none; `now` is in seconds
/// since the epoch.
pub(crate) fn describe_budget(budget: &PluginBudget, now: u64) -> Option<String> {
    let PluginBudget { time_ms, share, exemption, limit } = budget;
    let no_limit = || exemption.as_ref().map(|why| format!("never limited by its budget: {why}"));
    let Some(PluginLimit { since, skipped, next_try }) = limit else { return no_limit() };
    let lasts = duration(now.saturating_sub(*since));
    let requests = if *skipped == 1 { "request" } else { "requests" };
    let next = match next_try.saturating_sub(now) {
        0 => "with the next container".to_owned(),
        left => format!("in {}", duration(left)),
    };
    Some(format!(
        "limited by its budget for {lasts}: more than {share}% of recent containers took longer \
         than {time_ms} ms; {skipped} {requests} skipped it, tried again {next}"
    ))
}

/// Returns the number of containers that `nrictl containers` lists, and that of the others.
fn containers(status: &Status) -> String {
    let ended = status.ended_containers.unwrap_or_default().min(status.containers);
    let listed = status.containers - ended;
    match ended {
        0 => listed.to_string(),
        1 => format!("{listed}, and 1 that has ended"),
        _ => format!("{listed}, and {ended} that have ended"),
    }
}

/// Describes the containers that were created without a plugin.
pub(crate) fn describe_missed(missed: &MissedContainers) -> String {
    let plugin = &missed.plugin;
    match missed.containers {
        1 => format!("{plugin}: 1 container was created without it"),
        n => format!("{plugin}: {n} containers were created without it"),
    }
}

/// Writes for which containers a plugin has an effect, if its policy limits that.
///
/// # Errors
/// `out` cannot be written to.
pub(crate) fn write_limits(plugin: &PluginStatus, out: &mut impl Write) -> io::Result<()> {
    let mut lines = limits(plugin).into_iter();
    lines.try_for_each(|line| writeln!(out, "{}: {}", printable(&plugin.name), printable(&line)))
}

/// Describes for which containers a plugin has an effect, if its policy limits that.
fn limits(plugin: &PluginStatus) -> Vec<String> {
    let observed = "observed: what it changes and refuses is logged, and has no effect";
    let observed = plugin.observed.then(|| observed.to_owned());
    let scope = Some(&plugin.scope).filter(|scope| !scope.is_empty());
    observed.into_iter().chain(scope.map(|scope| format!("scope: {scope}"))).collect()
}

/// Describes the synchronization, the budget and the failures of a plugin, one line each.
fn failures(plugin: &PluginStatus, now: SystemTime) -> Vec<String> {
    let mut lines: Vec<String> = plugin.last_error.iter().cloned().collect();
    let now = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    lines.extend(plugin.synchronization.map(|progress| {
        let PluginSynchronization { since, sent, containers } = progress;
        let time = duration(now.saturating_sub(since));
        format!("synchronizing for {time}, {sent} of {containers} containers sent")
    }));
    lines.extend(plugin.budget.as_ref().and_then(|budget| describe_budget(budget, now)));
    let restarts = match plugin.restarts {
        0 => None,
        1 => Some("restarted once".to_owned()),
        n => Some(format!("restarted {n} times")),
    };
    let next = plugin
        .next_launch
        .map(|next| format!("next launch in {}", duration(next.saturating_sub(now))));
    // The end of the last session is also the last error, until the plugin is active again.
    let exit = plugin.last_exit.as_ref().filter(|exit| plugin.last_error.as_ref() != Some(exit));
    let exit = exit.map(|exit| format!("last end: {exit}"));
    let history: Vec<String> = [restarts, exit, next].into_iter().flatten().collect();
    lines.extend((!history.is_empty()).then(|| history.join("; ")));
    if !plugin.has_ended() {
        lines.extend(plugin.warnings.iter().map(|warning| format!("warning: {warning}")));
    }
    lines.extend(plugin.last_output.iter().map(|line| format!("last output: {line}")));
    lines
}

/// Formats a duration in seconds, in at most two units.
pub(crate) fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_containers_that_missed_a_plugin_are_counted() {
        let of = |containers| MissedContainers { plugin: "10-a".to_owned(), containers };
        assert_eq!(describe_missed(&of(1)), "10-a: 1 container was created without it");
        assert_eq!(describe_missed(&of(2)), "10-a: 2 containers were created without it");
    }

    #[test]
    fn the_limits_of_a_plugin_are_those_of_its_policy() {
        assert_eq!(limits(&PluginStatus::default()), [""; 0]);
        let scope = "engines docker; others hidden".to_owned();
        let plugin = PluginStatus { observed: true, scope, ..PluginStatus::default() };
        let observed = "observed: what it changes and refuses is logged, and has no effect";
        assert_eq!(limits(&plugin), [observed, "scope: engines docker; others hidden"]);
    }

    #[test]
    fn a_limited_plugin_says_why_and_until_when() {
        let limit = PluginLimit { since: 900, skipped: 12, next_try: 1020 };
        let mut budget =
            PluginBudget { time_ms: 200, share: 50, exemption: None, limit: Some(limit) };
        let text = |budget: &PluginBudget| describe_budget(budget, 1000);
        assert_eq!(
            text(&budget).unwrap(),
            "limited by its budget for 1 min: more than 50% of recent containers took longer than \
             200 ms; 12 requests skipped it, tried again in 20 s"
        );
        budget.limit = Some(PluginLimit { since: 1000, skipped: 1, next_try: 990 });
        let end = "; 1 request skipped it, tried again with the next container";
        assert!(text(&budget).unwrap().ends_with(end));
        let mut plugin = PluginStatus { state: "active".to_owned(), ..PluginStatus::default() };
        assert_eq!(state(&plugin), "active");
        plugin.budget = Some(budget.clone());
        assert_eq!(state(&plugin), "limited");
        budget.limit = None;
        assert_eq!(text(&budget), None);
        budget.exemption = Some("the plugin is required".to_owned());
        let line = "never limited by its budget: the plugin is required";
        assert_eq!(text(&budget).unwrap(), line);
    }

    #[test]
    fn the_failures_of_a_plugin_are_its_last_end_its_restarts_and_its_last_output() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let healthy = PluginStatus { state: "active".to_owned(), ..PluginStatus::default() };
        assert_eq!(failures(&healthy, now), [""; 0]);
        let exit = Some("the program exited with code 5".to_owned());
        let restarting = PluginStatus {
            state: "restarting".to_owned(),
            last_error: exit.clone(),
            last_exit: exit.clone(),
            restarts: 3,
            last_output: Some("cannot open /x".to_owned()),
            next_launch: Some(1012),
            ..PluginStatus::default()
        };
        assert_eq!(
            failures(&restarting, now),
            [
                "the program exited with code 5",
                "restarted 3 times; next launch in 12 s",
                "last output: cannot open /x"
            ]
        );
        let active = PluginStatus { last_exit: exit, restarts: 1, ..healthy };
        let synchronization = PluginSynchronization { since: 997, sent: 83, containers: 500 };
        let synchronizing = PluginStatus {
            state: "synchronizing".to_owned(),
            synchronization: Some(synchronization),
            ..PluginStatus::default()
        };
        let line = "synchronizing for 3 s, 83 of 500 containers sent";
        assert_eq!(failures(&synchronizing, now), [line]);
        let line = "restarted once; last end: the program exited with code 5";
        assert_eq!(failures(&active, now), [line]);
    }
}
