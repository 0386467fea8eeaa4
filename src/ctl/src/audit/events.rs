//! `nrictl events`: the lines of the audit log, as a table or as they are.

use crate::{
    audit::{
        filter::{LineFilter, parse_since, shown_container, shown_time},
        history::author,
        reader::{LogEntry, LogReader},
    },
    error::CtlError,
    nrid_location::NridLocation,
    output::output,
};
use clap::Args;
use nri_control::{AuditEvent, AuditLine, FieldChange, MissedPlugin, printable};
use rustix::process::geteuid;
use serde_json::Value;
use std::{
    io::{self, Write},
    thread,
    time::{Duration, SystemTime},
};

/// Interval at which `--follow` looks for new lines.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Number of characters of a value in a table.
const MAX_SHOWN: usize = 40;

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
    /// Only events of this container: its name, or the beginning of its id.
    #[arg(long, value_name = "CONTAINER")]
    container: Option<String>,
    /// Only events since this time, such as 2026-01-02T15:04:05Z, or 10m for ten minutes ago.
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    since: Option<SystemTime>,
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
        let filter = LineFilter { plugin, container, since: self.since };
        let mut reader = open_log(nrid, self.follow)?;
        let mut out = output();
        loop {
            while let Some(entry) = read(&mut reader, nrid)? {
                if filter.matches(&entry.line) {
                    self.print(&mut out, &entry)?;
                }
            }
            out.flush()?;
            if !self.follow {
                return Ok(());
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn print(&self, out: &mut impl Write, LogEntry { text, line }: &LogEntry) -> io::Result<()> {
        if self.json {
            return writeln!(out, "{text}");
        }
        let time = shown_time(&printable(&line.time));
        let container = Some(shown_container(line)).filter(|c| !c.is_empty());
        writeln!(
            out,
            "{time}  {:<17}  {:<16}  {:<16}  {}",
            line.event.name(),
            printable(author(line)),
            printable(container.as_deref().unwrap_or("-")),
            printable(&details(line))
        )
    }
}

/// Opens the audit log that the configuration names.
///
/// # Errors
/// There is none, or it cannot be read.
pub(super) fn open_log(nrid: &NridLocation, may_be_missing: bool) -> Result<LogReader, CtlError> {
    let path = nrid.audit_log();
    let reader = LogReader::open(&path).map_err(|error| unreadable(nrid, error))?;
    if !reader.exists() && !may_be_missing {
        return Err(CtlError::NoAuditLog(path));
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
        parts.extend(line.exit_code.map(|code| format!("exit code {code}")));
        parts.extend(line.lost.map(|lost| format!("{lost} lines")));
        parts.extend(Some(line.message.clone()).filter(|message| !message.is_empty()));
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

/// Returns a value for people, cut if it is long.
pub(super) fn shown_value(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
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
    }
}
