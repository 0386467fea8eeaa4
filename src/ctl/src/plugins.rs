//! The output of `nrictl plugins`.

use crate::{
    error::CtlError,
    exit_code::not_running_unless,
    nrid_location::NridLocation,
    output::output,
    status::{state, write_limits},
    table::{GAP, TableForm, TextTable, terminal_width, text_width},
    uncalled::Uncalled,
    units::{memory, time},
};
use nri_control::{
    CallCounts, EventCalls, PluginBudget, PluginCalls, PluginFailurePolicy, PluginStatus,
    RequestedByPlugin, Status,
};
use nri_values::printable;
use serde::Serialize;
use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

/// Columns of the table; those after the first [`NARROW`] are in its wide form only.
const COLUMNS: [&str; 17] = [
    "INDEX",
    "NAME",
    "KIND",
    "PID",
    "VERSION",
    "STATE",
    "CALLS",
    "FAILED",
    "P50",
    "P99",
    "MEMORY",
    "TIMEOUTS",
    "REFUSED",
    "QUEUE P99",
    "RESTARTS",
    "ON FAILURE",
    "EVENTS",
];

const NARROW: usize = 11;

/// The cells of a plugin.
type Row = [String; COLUMNS.len()];

/// Columns with numbers.
const NUMBERS: [usize; 10] = [3, 6, 7, 8, 9, 10, 11, 12, 13, 14];

/// The column of names, which wraps.
const NAME: usize = 1;

/// Width that a longer name has in any case.
const NAME_WIDTH: u16 = 12;

/// Columns that are left out, in this order, until the table fits the terminal: VERSION, KIND, P50,
/// MEMORY. The wide form has them.
const DISPENSABLE: [usize; 4] = [4, 2, 8, 10];

/// Width that the events have in any case: the longest name of an event.
const EVENT_WIDTH: u16 = 29;

/// Asks `nrid` for its plugins, and prints them.
///
/// # Errors
/// A running `nrid` does not reply, or standard output cannot be written to.
pub(crate) fn run(
    nrid: &NridLocation,
    json: bool,
    form: Option<TableForm>,
) -> Result<ExitCode, CtlError> {
    let (status, uncalled) = Uncalled::with_status(nrid)?;
    print(status.as_deref(), uncalled, &nrid.launcher.socket(), json, form)?;
    Ok(not_running_unless(status.is_some()))
}

/// Prints the plugins as a table, or as JSON. `socket` is that of an `nrid` that does not run.
///
/// # Errors
/// Standard output cannot be written to.
pub(crate) fn print(
    status: Option<&Status>,
    uncalled: Option<Uncalled>,
    socket: &Path,
    json: bool,
    form: Option<TableForm>,
) -> io::Result<()> {
    let mut out = output();
    let uncalled = uncalled.map(|uncalled| uncalled.to_string());
    if json {
        let plugins = status.map_or(&[][..], |status| &status.plugins);
        let plugins: Vec<_> = plugins.iter().map(PluginEntry::of).collect();
        let value = serde_json::json!({
            "running": status.is_some(), "plugins": plugins, "uncalled": uncalled
        });
        return writeln!(out, "{value}");
    }
    match status {
        None => writeln!(out, "nrid is not running ({})", socket.display())?,
        Some(status) => write_status(status, form, &mut out)?,
    }
    uncalled.map_or(Ok(()), |text| writeln!(out, "{}", printable(&text)))
}

/// Writes the table of an `nrid` that runs.
fn write_status(status: &Status, form: Option<TableForm>, out: &mut impl Write) -> io::Result<()> {
    if status.plugins.is_empty() {
        return writeln!(out, "no plugins");
    }
    let rows: Vec<_> = std::iter::once(COLUMNS.map(str::to_owned))
        .chain(status.plugins.iter().map(cells))
        .collect();
    write_table(&rows, form, terminal_width(), out)?;
    status.plugins.iter().try_for_each(|plugin| write_limits(plugin, out))?;
    if counts_no_calls(status) {
        let version = &status.version;
        writeln!(
            out,
            "the nrid that runs ({version}) counts no calls; `nrictl restart` replaces it"
        )?;
    }
    Ok(())
}

/// Writes the table, for a terminal of this width if it is one. The first row has the names of the
/// columns.
fn write_table(
    rows: &[Row],
    form: Option<TableForm>,
    width: Option<u16>,
    out: &mut impl Write,
) -> io::Result<()> {
    let columns = match form {
        Some(TableForm::Wide) => (0..COLUMNS.len()).collect(),
        None => fitting_columns(rows, width),
    };
    let mut table = TextTable::with_width(0, width);
    for row in rows {
        table.row(columns.iter().map(|column| &row[*column]));
    }
    let is_number = |(_, column): &(usize, &usize)| NUMBERS.contains(column);
    columns.iter().enumerate().filter(is_number).for_each(|(at, _)| table.align_right(at));
    match form {
        Some(TableForm::Wide) => table.wrap_only(columns.len() - 1, EVENT_WIDTH),
        None => table.wrap_only(NAME, NAME_WIDTH.min(width_of(rows, NAME))),
    }
    table.write(out)
}

/// Returns the columns of the narrow form that fit the terminal.
fn fitting_columns(rows: &[Row], width: Option<u16>) -> Vec<usize> {
    let mut columns: Vec<usize> = (0..NARROW).collect();
    let Some(width) = width else { return columns };
    let least = |column: &usize| match *column {
        NAME => NAME_WIDTH.min(width_of(rows, NAME)),
        column => width_of(rows, column),
    };
    let needed = |columns: &[usize]| -> usize {
        columns.iter().map(|column| usize::from(least(column) + GAP)).sum()
    };
    for column in DISPENSABLE {
        // The last column has no gap.
        if needed(&columns) > usize::from(width.saturating_add(GAP)) {
            columns.retain(|other| *other != column);
        }
    }
    columns
}

/// Returns the width of a column.
fn width_of(rows: &[Row], column: usize) -> u16 {
    let widest = rows.iter().map(|row| text_width(&row[column])).max().unwrap_or_default();
    widest.try_into().unwrap_or(u16::MAX / 2)
}

/// Whether the status is that of an `nrid` that counts no calls.
fn counts_no_calls(status: &Status) -> bool {
    let mut named = status.plugins.iter().filter(|plugin| !plugin.name.is_empty()).peekable();
    named.peek().is_some() && named.all(|plugin| plugin.calls.is_none())
}

/// Returns the cells of a plugin; what is unknown is a dash.
fn cells(plugin: &PluginStatus) -> Row {
    let unknown = || "-".to_owned();
    let or_unknown = |text: &str| if text.is_empty() { unknown() } else { text.to_owned() };
    let (index, name) = index_and_name(plugin);
    let number = |number: Option<u64>| number.map_or_else(unknown, |n| n.to_string());
    let time = |micros: Option<u64>| micros.map_or_else(unknown, time);
    let calls = plugin.calls.as_deref();
    let total = calls.map(|calls| calls.total);
    [
        or_unknown(index),
        or_unknown(name),
        kind(plugin).to_owned(),
        number(plugin.pid.map(u64::from)),
        or_unknown(&plugin.nri_version),
        state(plugin).to_owned(),
        number(total.map(|total| total.calls)),
        number(total.map(|total| total.failures)),
        time(total.and_then(|total| total.p50_us)),
        time(total.and_then(|total| total.p99_us)),
        plugin.memory.map_or_else(unknown, memory),
        number(total.map(|total| total.timeouts)),
        number(total.map(|total| total.refusals)),
        time(calls.and_then(|calls| calls.queue_p99_us)),
        number(Some(plugin.restarts.into())),
        plugin.failure_policy.as_ref().map_or_else(unknown, on_failure),
        or_unknown(&plugin.events.join(" ")),
    ]
}

/// Describes what a failure of the plugin does to the request, and timeouts to its connection.
fn on_failure(policy: &PluginFailurePolicy) -> String {
    let request = &policy.on_failure;
    match policy.consecutive_timeouts {
        0 => format!("{request}, keep"),
        1 => format!("{request}, close"),
        n => format!("{request}, close after {n}"),
    }
}

/// Returns index and name, which are empty before the plugin has registered.
fn index_and_name(plugin: &PluginStatus) -> (&str, &str) {
    plugin.name.split_once('-').unwrap_or_default()
}

fn kind(plugin: &PluginStatus) -> &'static str {
    if plugin.launched { "launched" } else { "external" }
}

/// A plugin in the JSON.
#[derive(Serialize)]
struct PluginEntry<'a> {
    index: &'a str,
    name: &'a str,
    kind: &'a str,
    pid: Option<u32>,
    nri_version: &'a str,
    state: &'a str,
    restarts: u32,
    events: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_policy: Option<FailureEntry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<&'a PluginBudget>,
    observed: bool,
    scope: Option<&'a str>,
    memory_bytes: Option<u64>,
    last_error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<CallsEntry<'a>>,
}

/// The handling of a plugin's failures in the JSON.
#[derive(Serialize)]
struct FailureEntry<'a> {
    on_failure: &'a str,
    validation_failure: &'a str,
    consecutive_timeouts: u32,
    requested: Option<RequestedEntry>,
}

/// What the plugin requested for its failures, in the JSON.
#[derive(Serialize)]
struct RequestedEntry {
    fail_request: bool,
    keep_connected: bool,
}

/// The calls of a plugin in the JSON.
#[derive(Serialize)]
struct CallsEntry<'a> {
    total: CountsEntry,
    by_event: Vec<EventEntry<'a>>,
    queue_p50_us: Option<u64>,
    queue_p99_us: Option<u64>,
    updates: u64,
    evictions: u64,
    conflicts: u64,
    denials: u64,
}

/// Numbers and times of calls in the JSON.
#[derive(Serialize)]
struct CountsEntry {
    calls: u64,
    failures: u64,
    refusals: u64,
    timeouts: u64,
    p50_us: Option<u64>,
    p99_us: Option<u64>,
}

/// The calls for an event in the JSON.
#[derive(Serialize)]
struct EventEntry<'a> {
    event: &'a str,
    counts: CountsEntry,
}

impl<'a> PluginEntry<'a> {
    fn of(plugin: &'a PluginStatus) -> Self {
        let (index, name) = index_and_name(plugin);
        Self {
            index,
            name,
            kind: kind(plugin),
            pid: plugin.pid,
            nri_version: &plugin.nri_version,
            state: &plugin.state,
            restarts: plugin.restarts,
            events: &plugin.events,
            failure_policy: plugin.failure_policy.as_ref().map(FailureEntry::of),
            budget: plugin.budget.as_ref(),
            observed: plugin.observed,
            scope: Some(plugin.scope.as_str()).filter(|scope| !scope.is_empty()),
            memory_bytes: plugin.memory,
            last_error: plugin.last_error.as_deref(),
            calls: plugin.calls.as_deref().map(CallsEntry::of),
        }
    }
}

impl<'a> FailureEntry<'a> {
    fn of(policy: &'a PluginFailurePolicy) -> Self {
        let requested =
            policy.requested.map(|RequestedByPlugin { fail_request, keep_connected }| {
                RequestedEntry { fail_request, keep_connected }
            });
        Self {
            on_failure: &policy.on_failure,
            validation_failure: &policy.validation_failure,
            consecutive_timeouts: policy.consecutive_timeouts,
            requested,
        }
    }
}

impl<'a> CallsEntry<'a> {
    fn of(calls: &'a PluginCalls) -> Self {
        let of_event = |event: &'a EventCalls| EventEntry {
            event: &event.event,
            counts: CountsEntry::of(event.counts),
        };
        Self {
            total: CountsEntry::of(calls.total),
            by_event: calls.events.iter().map(of_event).collect(),
            queue_p50_us: calls.queue_p50_us,
            queue_p99_us: calls.queue_p99_us,
            updates: calls.updates,
            evictions: calls.evictions,
            conflicts: calls.conflicts,
            denials: calls.denials,
        }
    }
}

impl CountsEntry {
    fn of(counts: CallCounts) -> Self {
        let CallCounts { calls, failures, refusals, timeouts, p50_us, p99_us } = counts;
        Self { calls, failures, refusals, timeouts, p50_us, p99_us }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_a_dash() {
        let unregistered = PluginStatus { state: "connecting".to_owned(), ..Default::default() };
        let found = cells(&unregistered);
        assert_eq!(found.join(" "), "- - external - - connecting - - - - - - - - 0 - -");
        let status = |plugin: &PluginStatus| Status {
            plugins: vec![unregistered.clone(), plugin.clone()],
            ..Default::default()
        };
        assert!(!counts_no_calls(&status(&unregistered)));
        let mut plugin = PluginStatus { name: "10-a-b".to_owned(), ..unregistered.clone() };
        assert!(counts_no_calls(&status(&plugin)));
        plugin.calls = Some(Box::default());
        assert!(!counts_no_calls(&status(&plugin)));
        assert_eq!(cells(&plugin)[..2], ["10", "a-b"]);
    }

    #[test]
    fn what_limits_a_plugin_is_below_the_table_and_in_the_json() {
        let limited = PluginStatus {
            name: "10-a".to_owned(),
            observed: true,
            scope: "engines docker; others read-only".to_owned(),
            ..Default::default()
        };
        let free = PluginStatus { name: "20-b".to_owned(), ..Default::default() };
        let of = |plugin: &PluginStatus| {
            let entry = serde_json::to_value(PluginEntry::of(plugin)).unwrap();
            (entry["observed"].clone(), entry["scope"].clone())
        };
        assert_eq!(of(&limited), (true.into(), limited.scope.as_str().into()));
        assert_eq!(of(&free), (false.into(), serde_json::Value::Null));
        let calls = Some(Box::default());
        let plugins = vec![PluginStatus { calls, ..limited }, free];
        let mut out = Vec::new();
        write_status(&Status { plugins, ..Default::default() }, None, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<_> = text.lines().filter(|line| line.contains(": ")).collect();
        let observed = "10-a: observed: what it changes and refuses is logged, and has no effect";
        assert_eq!(lines, [observed, "10-a: scope: engines docker; others read-only"], "{text}");
    }

    fn table(rows: &[Row], form: Option<TableForm>, width: Option<u16>) -> String {
        let mut out = Vec::new();
        write_table(rows, form, width, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_table_fits_the_terminal() {
        let row = |cells: [&str; NARROW]| {
            let mut row = COLUMNS.map(|_| "-".to_owned());
            row.iter_mut().zip(cells).for_each(|(to, from)| *to = from.to_owned());
            row
        };
        let headings = COLUMNS.map(str::to_owned);
        let short = row([
            "10", "logger", "launched", "4711", "0.12.5", "active", "7", "0", "1.2 ms", "15 ms",
            "3 MiB",
        ]);
        let long = row([
            "10",
            "a-long-name-of-a-plugin",
            "external",
            "4194303",
            "0.12.5",
            "restarting",
            "1234567",
            "123456",
            "123.4 ms",
            "123.4 ms",
            "1234.5 MiB",
        ]);
        let all = "INDEX NAME KIND PID VERSION STATE CALLS FAILED P50 P99 MEMORY";
        let names = |text: &str| {
            text.lines().next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let rows = [headings, short, long];
        assert_eq!(names(&table(&rows, None, None)), all);
        assert_eq!(names(&table(&rows, None, Some(200))), all);
        for (rows, expected) in [
            (&rows[..2], "INDEX NAME KIND PID STATE CALLS FAILED P50 P99 MEMORY"),
            (&rows[..], "INDEX NAME PID STATE CALLS FAILED P99 MEMORY"),
        ] {
            let text = table(rows, None, Some(80));
            assert_eq!(names(&text), expected, "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        }
        assert!(names(&table(&rows, Some(TableForm::Wide), Some(80))).ends_with("FAILURE EVENTS"));
    }
}
