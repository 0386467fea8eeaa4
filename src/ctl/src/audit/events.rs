//! `nrictl events`: the lines of the audit log, as a table or as they are.

use crate::{
    audit::{
        filter::{LineFilter, parse_event, parse_time, shown_container, shown_time},
        history::{author, shown_end},
        reader::{LogEntry, LogReader},
    },
    error::CtlError,
    nrid,
    nrid_location::NridLocation,
    output::{output, wait_for_reader},
    table::{TextTable, terminal_width},
    units::{counted, size_of_field},
};
use clap::Args;
use nri_files::{AuditEvent, AuditLine, FieldChange, MissedPlugin};
use nri_values::printable;
use rustix::process::geteuid;
use serde_json::Value;
use std::{
    io::{self, Write},
    time::{Duration, SystemTime},
};

/// Interval at which `--follow` looks for new lines.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Number of characters of a value in a table.
const MAX_SHOWN: usize = 40;

/// Widths of time, event, plugin and container. With these a line fits a terminal of 80 columns.
const WIDTHS: [u16; 4] = [24, 17, 16, 16];

/// Width of a terminal from which on the details are beside the container, not below.
const WIDE: u16 = 120;

/// Columns on the left of details below an event.
const INDENT: u16 = 4;

/// Show the audit log: changes, refusals, starts and stops.
///
/// The log is a file, which is read even if nrid does not run.
#[derive(Args)]
pub(crate) struct EventsCommand {
    /// Wait for further events.
    #[arg(long, short)]
    follow: bool,
    /// Only events of this plugin: NN-name, or name.
    #[arg(long, value_name = "PLUGIN")]
    plugin: Option<String>,
    /// Only events of containers with this id or name, or with an id that begins so.
    #[arg(long, value_name = "CONTAINER")]
    container: Option<String>,
    /// Only events since this time, such as 2026-01-02T15:04:05Z, or 10m for ten minutes ago.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<SystemTime>,
    /// Only events until this time.
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "follow")]
    until: Option<SystemTime>,
    /// Only these events, such as `refusal` or `created,removed`.
    #[arg(long = "event", value_name = "EVENT", value_parser = parse_event, value_delimiter = ',')]
    events: Vec<AuditEvent>,
    /// Print the lines of the audit log, each of which is JSON.
    #[arg(long)]
    json: bool,
}

impl EventsCommand {
    /// Prints the events.
    ///
    /// # Errors
    /// There is no audit log, or it cannot be read.
    pub(crate) fn run(&self, nrid: &NridLocation) -> Result<(), CtlError> {
        let (plugin, container) = (self.plugin.clone(), self.container.clone());
        let (since, until, events) = (self.since, self.until, self.events.clone());
        let filter = LineFilter { plugin, container, since, until, events };
        let mut reader = open_log(nrid)?;
        if !reader.exists() && !self.follow {
            return Err(CtlError::NoAuditLog(nrid.audit_log()));
        }
        let mut out = output();
        loop {
            while let Some(entry) = read(&mut reader, nrid)? {
                if filter.matches(&entry.line) {
                    self.print(&mut out, &entry)?;
                }
            }
            out.flush()?;
            if !self.follow || !wait_for_reader(POLL_INTERVAL) {
                return Ok(());
            }
        }
    }

    fn print(&self, out: &mut impl Write, LogEntry { text, line }: &LogEntry) -> io::Result<()> {
        if self.json {
            return writeln!(out, "{text}");
        }
        print_event(out, line, terminal_width())
    }
}

/// Prints an event on one line, or on more where a terminal of this width has no room. Each event
/// is a table of its own, since further ones may follow at any time.
fn print_event(out: &mut impl Write, line: &AuditLine, width: Option<u16>) -> io::Result<()> {
    let container = Some(shown_container(line)).filter(|container| !container.is_empty());
    let container = container.as_deref().unwrap_or("-");
    let (time, event, author) = (shown_time(&line.time), line.event.name(), author(line));
    let details = details(line);
    let Some(columns) = width else {
        let [time, author, container, details] =
            [&time, author, container, &details].map(printable);
        return writeln!(out, "{time}  {event:<17}  {author:<16}  {container:<16}  {details}");
    };
    let is_beside = columns >= WIDE;
    let mut table = TextTable::with_width(0, width);
    let cells = [&time, event, author, container, &details];
    table.row(cells.into_iter().take(WIDTHS.len() + usize::from(is_beside)));
    table.fix_widths(&WIDTHS);
    table.write(out)?;
    if is_beside || details.is_empty() {
        return Ok(());
    }
    let mut below = TextTable::with_width(INDENT, width);
    below.row([details]);
    below.write(out)
}

/// Opens the audit log that the configuration names. It may not exist yet.
///
/// # Errors
/// It cannot be read, or the one that is meant may be that of root.
pub(super) fn open_log(nrid: &NridLocation) -> Result<LogReader, CtlError> {
    let reader = LogReader::open(&nrid.audit_log()).map_err(|error| unreadable(nrid, error))?;
    if !reader.exists()
        && let Err(error @ CtlError::NeedsRoot(_)) = nrid::connect(nrid)
    {
        return Err(error);
    }
    Ok(reader)
}

/// Reads the next line of the audit log.
pub(super) fn read(
    reader: &mut LogReader,
    nrid: &NridLocation,
) -> Result<Option<LogEntry>, CtlError> {
    reader.next().map_err(|error| unreadable(nrid, error))
}

/// Returns the error of an audit log that cannot be read.
fn unreadable(nrid: &NridLocation, source: io::Error) -> CtlError {
    let path = nrid.audit_log();
    if source.kind() == io::ErrorKind::PermissionDenied && !geteuid().is_root() {
        return CtlError::NeedsRoot(format!("cannot read {}", path.display()));
    }
    CtlError::AuditLog { path, source }
}

/// Describes a line.
fn details(line: &AuditLine) -> String {
    let mut parts = Vec::new();
    if line.event == AuditEvent::Refusal {
        parts.push(line.message.clone());
    } else {
        parts.extend(Some(line.plugins.join(" ")).filter(|plugins| !plugins.is_empty()));
        parts.extend(line.missed.iter().map(shown_missed));
        parts.extend(line.changes.iter().map(shown_change));
        parts.extend(line.ignored.iter().cloned());
        parts.extend(line.lost.map(|lost| counted(lost, "line")));
        parts.extend(shown_end(line));
    }
    parts.join(", ")
}

/// Describes a plugin without which a container was created.
pub(super) fn shown_missed(MissedPlugin { plugin, why }: &MissedPlugin) -> String {
    format!("without {plugin}: {why}")
}

/// Returns a change in one line.
fn shown_change(change: &FieldChange) -> String {
    let FieldChange { field, before, after, .. } = change;
    let shown_value = |value| shown_value(field, value);
    match (before, after) {
        (None, Some(Value::Bool(true))) if change.path.is_empty() => field.clone(),
        (None, Some(after)) => format!("{field} = {}", shown_value(after)),
        (Some(_), None) => format!("{field} removed"),
        (Some(before), Some(after)) => {
            format!("{field}: {} -> {}", shown_value(before), shown_value(after))
        }
        (None, None) => field.clone(),
    }
}

/// Returns the value of a field for people, cut if it is long.
pub(super) fn shown_value(field: &str, value: &Value) -> String {
    let text = match (size_of_field(field, value), value) {
        (Some(size), _) => size,
        (None, Value::String(text)) => text.clone(),
        (None, other) => other.to_string(),
    };
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_fits_the_terminal() {
        let line = AuditLine {
            time: "2026-01-02T03:04:05.000006Z".into(),
            event: AuditEvent::Refusal,
            plugin: "10-a-plugin-with-a-name".into(),
            container: "c1".into(),
            message: "the container cannot be created: its plugins set pids.limit to 10 and to 20"
                .into(),
            ..AuditLine::default()
        };
        let print = |width| {
            let mut text = Vec::new();
            print_event(&mut text, &line, width).unwrap();
            String::from_utf8(text).unwrap()
        };
        let head = "2026-01-02T03:04:05.000Z  refusal            10-a-plugin-with";
        assert_eq!(print(None).lines().count(), 1);
        assert_eq!(
            print(Some(80)),
            format!(
                "{head}  c1\n{:45}-a-name\n    \
                 the container cannot be created: its plugins set pids.limit to 10 and to 20\n",
                ""
            )
        );
        assert_eq!(
            print(Some(120)),
            format!(
                "{head}  c1                the container cannot be created: its\n{:45}\
                 {:<36}plugins set pids.limit to 10 and to 20\n",
                "", "-a-name"
            ),
        );
        for width in [80, 100, 119, 120, 200] {
            let text = print(Some(width));
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= width.into(), "{width}: {text}");
        }
    }

    #[test]
    fn a_line_is_described_by_its_changes_or_its_reason() {
        let change = |field: &str, before: Option<Value>, after: Option<Value>| FieldChange {
            field: field.into(),
            path: "/x".into(),
            before,
            after,
        };
        let line = AuditLine {
            event: AuditEvent::Adjustment,
            changes: vec![
                change("env[A]", None, Some(json!("***"))),
                change("pids.limit", Some(json!(10)), Some(json!(20))),
                change("mounts[/m]", Some(json!({})), None),
                change("args", None, Some(json!(["x".repeat(50)]))),
            ],
            ..AuditLine::default()
        };
        let long = format!("[\"{}…", "x".repeat(38));
        assert_eq!(
            details(&line),
            format!("env[A] = ***, pids.limit: 10 -> 20, mounts[/m] removed, args = {long}")
        );
        let stopped =
            AuditLine { exit_code: Some(1), message: "Error".into(), ..AuditLine::default() };
        assert_eq!(details(&stopped), "exit code 1, Error");
        let message = "exit code 1: no such file".to_owned();
        let failed = AuditLine { event: AuditEvent::Failed, message, ..stopped };
        assert_eq!(details(&failed), "exit code 1: no such file");
    }
}
