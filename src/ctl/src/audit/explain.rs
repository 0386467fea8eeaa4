//! `nrictl explain`: what plugins changed in one container, and what was refused.

use crate::{
    audit::{
        diff,
        events::{open_log, read, shown_missed, shown_value},
        filter::shown_time,
        history::{ContainerHistory, FieldHistory, author, is_of_life, meant, shown_end},
        page::page,
        record::{self, KnownContainers},
        shown::{SHADOW, requests, shown_author, shown_step_time},
    },
    error::CtlError,
    nrid_location::NridLocation,
    output::output,
    table::TextTable,
    units::counted,
};
use clap::Args;
use nri_files::AuditLine;
use nri_values::printable;
use serde_json::Value;
use std::{
    io::{self, Write},
    thread,
    time::Duration,
};

/// Time after which `nrid` has usually written what happened: it collects lines for 20 ms.
const WRITTEN: Duration = Duration::from_millis(30);

/// Show what plugins changed in a container, and refusals.
///
/// Each field has its value before and after, who changed it and when. Works for all containers
/// that nrid has a record of, and as long as the audit log has their lines for those that are gone,
/// and for creations that were refused. What is from the record is marked so.
#[derive(Args)]
pub(crate) struct ExplainCommand {
    /// Id of the container, else its name, else a prefix of its id.
    pub(crate) container: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Print what plugins changed in config.json, as a unified diff of the changed values.
    #[arg(long, conflicts_with = "json")]
    diff: bool,
    /// Print a page for browsers and for paper, with a picture of the way through the plugins.
    #[arg(long, conflicts_with_all = ["json", "diff"])]
    html: bool,
}

impl ExplainCommand {
    /// Whether the output is lines of text.
    pub(crate) fn is_for_people(&self) -> bool {
        !(self.json || self.html || self.diff)
    }

    /// Prints the history.
    ///
    /// # Errors
    /// The audit log cannot be read, or does not have this container.
    pub(crate) fn run(&self, nrid: &NridLocation) -> Result<(), CtlError> {
        // A script asks right after the engine's call has returned.
        thread::sleep(WRITTEN);
        let mut reader = open_log(nrid)?;
        let mut lines = Vec::new();
        while let Some(entry) = read(&mut reader, nrid)? {
            if !entry.line.container.is_empty() {
                lines.push(entry.line);
            }
        }
        let wanted = &self.container;
        let mut records = KnownContainers::connect(nrid);
        let Some((id, record)) = records.choose(&lines, wanted, meant(&lines, wanted))? else {
            return Err(if reader.exists() {
                CtlError::NoHistory(wanted.clone())
            } else {
                CtlError::NoAuditLog(nrid.audit_log())
            });
        };
        let history = ContainerHistory::new(lines, &id, wanted, record.as_ref());
        let note = record::note(&history.events, records.exist());
        let mut out = output();
        if self.json {
            let text = serde_json::to_string(&history).map_err(io::Error::other)?;
            writeln!(out, "{text}")?;
        } else if self.html {
            out.write_all(page(&history, note).into_string().as_bytes())?;
        } else if self.diff {
            out.write_all(printable_lines(&diff::unified(&history)).as_bytes())?;
        } else {
            print(&mut out, &history, note)?;
        }
        Ok(())
    }
}

fn print(out: &mut impl Write, history: &ContainerHistory, note: &str) -> io::Result<()> {
    let names = &history.names;
    write!(out, "{}", printable(&names.container))?;
    let pod = match names.namespace.as_str() {
        "" => names.pod_name.clone(),
        namespace => format!("{namespace}/{}", names.pod_name),
    };
    for label in [&names.name, &names.engine, &names.runtime, &pod] {
        if !label.is_empty() && *label != names.container {
            write!(out, "  {}", printable(label))?;
        }
    }
    writeln!(out)?;
    for line in &history.events {
        if is_of_life(line.event) {
            let (time, name) = (time(&line.time), line.event.name());
            let end = shown_end(line).map(|end| format!("  {}", printable(&end)));
            let mark = if line.from_record { "  (record)" } else { "" };
            writeln!(out, "  {time}  {name}{}{mark}", end.unwrap_or_default())?;
        }
    }
    if !history.plugins.is_empty() {
        writeln!(out, "  plugins called: {}", printable(&history.plugins.join(" ")))?;
    }
    for missed in &history.missed {
        writeln!(out, "  created {}", printable(&shown_missed(missed)))?;
    }
    if history.is_shadow() {
        writeln!(out, "{SHADOW}:")?;
    }
    if history.fields.is_empty() {
        writeln!(out, "no field was changed")?;
    } else {
        fields_table(&history.fields).write(out)?;
    }
    for line in requests(history) {
        writeln!(out, "{}", printable(&line))?;
    }
    if !note.is_empty() {
        writeln!(out, "{note}")?;
    }
    for note in &history.notes {
        print_note(out, note)?;
    }
    if !history.same_name.is_empty() {
        let ids = history.same_name.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        writeln!(out, "others with this name, to be named by their ids: {}", printable(&ids))?;
    }
    if history.earlier_creations > 0 {
        let count = counted(history.earlier_creations, "earlier creation");
        let id = printable(&names.container);
        writeln!(out, "{count} with this id: see `nrictl events --container {id}`")?;
    }
    Ok(())
}

/// Returns a table with a row for each change; its field is in the first row of each field.
fn fields_table(fields: &[FieldHistory]) -> TextTable {
    let mut table = TextTable::new(0);
    table.row(["FIELD", "BEFORE", "AFTER", "BY", "TIME"]);
    for FieldHistory { field, changes, .. } in fields {
        let value = |value: &Option<Value>| shown_or_dash(field, value.as_ref());
        for (n, step) in changes.iter().enumerate() {
            let name = if n == 0 { field } else { "" };
            let (before, after) = (value(&step.before), value(&step.after));
            table.row([name, &before, &after, &shown_author(step), &shown_step_time(step)]);
        }
    }
    table
}

/// Returns a value for people; `-` if there is none.
fn shown_or_dash(field: &str, value: Option<&Value>) -> String {
    value.map_or("-".to_owned(), |value| shown_value(field, value))
}

/// Prints a refusal, an eviction, a failure, or what was ignored.
fn print_note(out: &mut impl Write, note: &AuditLine) -> io::Result<()> {
    let mut text = Some(note.message.clone()).filter(|m| !m.is_empty());
    if text.is_none() && !note.ignored.is_empty() {
        text = Some(note.ignored.join(", "));
    }
    let request = Some(note.request.as_str()).filter(|r| !r.is_empty());
    let request = request.map(|request| format!(" ({request})")).unwrap_or_default();
    let (time, text) = (time(&note.time), text.unwrap_or_default());
    let (name, by) = (note.event.name(), printable(author(note)));
    writeln!(out, "{time}  {name}{request}  {by}  {}", printable(&text))
}

/// Returns a text whose lines are printable.
fn printable_lines(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", printable(line))).collect()
}

/// Returns a time of the log, printable.
fn time(time: &str) -> String {
    shown_time(&printable(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_files::{AuditEvent, FieldChange};
    use serde_json::json;

    #[test]
    fn the_text_has_life_fields_and_refusals() {
        let line = |event| AuditLine {
            time: "2026-01-02T03:04:05.000006Z".into(),
            container: "c1".into(),
            name: "web".into(),
            engine: "docker".into(),
            creation: 1,
            event,
            ..AuditLine::default()
        };
        let change = |before, after| FieldChange {
            field: "pids.limit".into(),
            path: "/linux/resources/pids/limit".into(),
            before,
            after,
        };
        let lines = vec![
            AuditLine {
                plugin: "10-a".into(),
                changes: vec![change(None, Some(json!(100)))],
                ..line(AuditEvent::Adjustment)
            },
            line(AuditEvent::Created),
            AuditLine {
                changes: vec![change(Some(json!(100)), Some(json!(200)))],
                ..line(AuditEvent::Update)
            },
            AuditLine {
                plugin: "10-a".into(),
                changes: vec![change(Some(json!(200)), Some(json!(50)))],
                ..line(AuditEvent::Update)
            },
            AuditLine {
                message: "undo".into(),
                changes: vec![change(Some(json!(50)), Some(json!(200)))],
                ..line(AuditEvent::Update)
            },
            AuditLine {
                plugin: "20-b".into(),
                request: "update".into(),
                message: "no\nmore".into(),
                ..line(AuditEvent::Refusal)
            },
            AuditLine { exit_code: Some(3), ..line(AuditEvent::Stopped) },
        ];
        let history = ContainerHistory::of(lines, "web").unwrap();
        let mut text = Vec::new();
        print(&mut text, &history, "").unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "c1  web  docker\n  \
             2026-01-02T03:04:05.000Z  created\n  \
             2026-01-02T03:04:05.000Z  stopped  exit code 3\n\
             FIELD       BEFORE  AFTER  BY             TIME\n\
             pids.limit  -       100    10-a           2026-01-02T03:04:05.000Z\n\
             \u{20}           100     200    engine         2026-01-02T03:04:05.000Z\n\
             \u{20}           200     50     10-a           2026-01-02T03:04:05.000Z\n\
             \u{20}           50      200    engine (undo)  2026-01-02T03:04:05.000Z\n\
             2026-01-02T03:04:05.000Z  refusal (update)  20-b  no; more\n"
        );
    }
}
