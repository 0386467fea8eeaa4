//! What the audit log lacks of a container, from the container's record: the log may have been
//! removed, rotated, or switched off for a while.

use crate::{error::CtlError, nrid_location::NridLocation, views::DescribeClient};
use nri_control::{Ambiguous, ContainerDescription, Describe, Description, Match, ObjectKind};
use nri_files::{AuditEvent, AuditLine, FieldChange};
use serde_json::Value;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The records of the `nrid` that runs.
pub(super) struct KnownContainers<'a>(Option<DescribeClient<'a>>);

impl<'a> KnownContainers<'a> {
    /// Connects to `nrid`. If none runs, or it does not reply, there are no records.
    pub(super) fn connect(nrid: &'a NridLocation) -> Self {
        Self(DescribeClient::connect(nrid).ok())
    }

    /// Whether there is an `nrid` that has records.
    pub(super) fn exist(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the container that is meant by `wanted`; `None` also if `nrid` does not reply.
    ///
    /// # Errors
    /// Several containers are meant.
    pub(super) fn find(&mut self, wanted: &str) -> Result<Option<ContainerDescription>, CtlError> {
        let Some(client) = &mut self.0 else { return Ok(None) };
        let (id, kind) = (wanted.to_owned(), Some(ObjectKind::Container));
        match client.object(&Describe::Object { id, kind, recorded: true }) {
            Ok(Description::Container(container)) => Ok(Some(*container)),
            Err(CtlError::Refused(message)) if Ambiguous::is_message(&message) => {
                Err(CtlError::Refused(message))
            }
            _ => Ok(None),
        }
    }

    /// Returns the container that is meant, and its record, if it has one: that of the log, or one
    /// that only a record has, which is named better, or equally well and is later. `in_log` is the
    /// container of the log that is meant.
    ///
    /// # Errors
    /// There are records of several that may be meant, or several in the log and no record.
    pub(super) fn choose(
        &mut self,
        lines: &[AuditLine],
        wanted: &str,
        in_log: Result<Option<(Match, String)>, Ambiguous>,
    ) -> Result<Option<(String, Option<ContainerDescription>)>, CtlError> {
        let known = match (&in_log, self.find(wanted)) {
            // A name is preferred to the beginnings of ids.
            (Ok(Some((Match::Name, _))), Err(CtlError::Refused(message)))
                if Ambiguous::is_of_prefix(&message, wanted) =>
            {
                Ok(None)
            }
            (_, known) => known,
        };
        let id = match in_log {
            Ok(Some((Match::Id, id))) => id,
            in_log => match (in_log, known?) {
                (in_log, None) => match in_log? {
                    Some((_, id)) => id,
                    None => return Ok(None),
                },
                (Ok(Some((rank, id))), Some(known)) => {
                    let ids = [&*known.summary.id, &known.plugin_id];
                    let is_known = match Match::of(wanted, &ids, &known.summary.name) {
                        Some(of_known) if of_known == rank => is_later(&known, lines, &id),
                        of_known => of_known < Some(rank),
                    };
                    if is_known { known.summary.id } else { id }
                }
                (Err(_) | Ok(None), Some(known)) => known.summary.id,
            },
        };
        // The id of a container that is gone may be a prefix of others.
        let record = self.find(&id).ok().flatten().filter(|record| record.summary.id == id);
        Ok(Some((id, record)))
    }
}

/// Whether a container was created after the last line of the log about the one with this id.
fn is_later(known: &ContainerDescription, lines: &[AuditLine], id: &str) -> bool {
    let created = Duration::from_nanos(u64::try_from(known.summary.created).unwrap_or_default());
    let last = lines.iter().rfind(|line| line.container == id);
    let last = last.and_then(|line| humantime::parse_rfc3339(&line.time).ok());
    last.is_none_or(|last: SystemTime| UNIX_EPOCH + created > last)
}

/// Adds to the lines of the log what only the record has.
pub(super) fn complete(lines: &mut Vec<AuditLine>, recorded: &[AuditLine]) {
    let mut added = Vec::new();
    for line in recorded.iter().filter(|line| line.event != AuditEvent::Update) {
        let mut line = line.clone();
        let logged = || lines.iter().filter(|known| known.event == line.event);
        let is_logged = match line.event {
            AuditEvent::Adjustment => {
                let known: Vec<_> = logged().flat_map(|known| &known.changes).cloned().collect();
                line.changes.retain(|change| !known.iter().any(|known| is_same(known, change)));
                line.changes.is_empty()
            }
            _ => logged().next().is_some(),
        };
        if !is_logged {
            added.push(line);
        }
    }
    if !added.is_empty() {
        lines.extend(added);
        lines.sort_by(|a, b| a.time.cmp(&b.time));
    }
    for line in recorded.iter().filter(|line| line.event == AuditEvent::Update) {
        let mut line = line.clone();
        line.changes.retain_mut(|change| match last_value(lines, &change.field) {
            Some(last) if last == change.after => false,
            Some(last) => {
                change.before = last;
                true
            }
            None => true,
        });
        if !line.changes.is_empty() {
            lines.push(line);
        }
    }
}

/// Whether the log has a change of a creation. Hooks and device rules of one name are entries of
/// their own.
fn is_same(known: &FieldChange, change: &FieldChange) -> bool {
    let is_appended = change.field.starts_with("hooks[") || change.field == "resources.devices";
    known.field == change.field && (!is_appended || known.after == change.after)
}

/// Returns the last value of a field; `None` if the lines have no change of it.
fn last_value(lines: &[AuditLine], field: &str) -> Option<Option<Value>> {
    let made =
        |line: &&AuditLine| matches!(line.event, AuditEvent::Adjustment | AuditEvent::Update);
    let mut changes = lines.iter().filter(made).flat_map(|line| &line.changes);
    changes.rfind(|change| change.field == field).map(|change| change.after.clone())
}

/// Returns what a person has to know of where the history is from; empty if all is from the log.
pub(super) fn note(lines: &[AuditLine], has_records: bool) -> &'static str {
    use AuditEvent::{Adjustment, Consulted, Created, Ignored, WouldAdjust, WouldRefuse};
    let is_of_creation = |line: &&AuditLine| {
        let is_event = matches!(
            line.event,
            Consulted | Adjustment | Ignored | Created | WouldAdjust | WouldRefuse
        );
        // Such a line is of a later update or eviction.
        (is_event && line.request != "plugin")
            || matches!(line.request.as_str(), "create" | "run" | "restore")
    };
    let mut of_creation = lines.iter().filter(is_of_creation);
    let is_recorded = |line: &AuditLine| line.from_record;
    match (lines.iter().any(is_recorded), of_creation.clone().next().is_some()) {
        (true, _) if of_creation.all(is_recorded) => {
            "(record): from the container's record; the audit log has no entry of the creation"
        }
        (true, _) => "(record): from the container's record; the audit log has no entry of it",
        (false, true) => "",
        (false, false) if has_records => {
            "the audit log has no entry of the creation, and nrid no record of the container"
        }
        (false, false) => {
            "the audit log has no entry of the creation, and no nrid runs that has the record"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(event: AuditEvent, time: &str, changes: &[(&str, Value)]) -> AuditLine {
        let change = |(field, after): &(&str, Value)| FieldChange {
            field: (*field).to_owned(),
            after: Some(after.clone()),
            ..FieldChange::default()
        };
        let changes = changes.iter().map(change).collect();
        AuditLine { event, time: time.to_owned(), changes, ..AuditLine::default() }
    }

    fn recorded(event: AuditEvent, time: &str, changes: &[(&str, Value)]) -> AuditLine {
        AuditLine { from_record: true, ..line(event, time, changes) }
    }

    #[test]
    fn only_what_the_log_lacks_is_added() {
        use AuditEvent::{Adjustment, Created, Started, Update};
        let record = [
            recorded(
                Adjustment,
                "1",
                &[
                    ("args", json!("a")),
                    ("memory.limit", json!(7)),
                    ("hooks[poststart]", json!("x")),
                    ("hooks[poststart]", json!("y")),
                ],
            ),
            recorded(Created, "1", &[]),
            recorded(Started, "5", &[]),
            recorded(Update, "", &[("memory.limit", json!(9)), ("pids.limit", json!(3))]),
        ];
        let shown = |log: Vec<AuditLine>| -> Vec<String> {
            let mut lines = log;
            complete(&mut lines, &record);
            let text = |line: &AuditLine| {
                let changes = line.changes.iter();
                let change = |c: &FieldChange| {
                    let value = |v: &Option<Value>| v.as_ref().map_or("-".into(), Value::to_string);
                    format!(" {}:{}>{}", c.field, value(&c.before), value(&c.after))
                };
                let mark = if line.from_record { "*" } else { "" };
                format!("{}{mark}{}", line.event.name(), changes.map(change).collect::<String>())
            };
            lines.iter().map(text).collect()
        };
        assert_eq!(
            shown(vec![]),
            [
                "adjustment* args:->\"a\" memory.limit:->7 hooks[poststart]:->\"x\" \
                 hooks[poststart]:->\"y\"",
                "created*",
                "started*",
                "update* memory.limit:7>9 pids.limit:->3"
            ]
        );
        // The beginning was rotated out.
        let rest = vec![
            line(Adjustment, "2", &[("memory.limit", json!(7)), ("hooks[poststart]", json!("y"))]),
            line(Created, "3", &[]),
            line(Update, "6", &[("memory.limit", json!(8))]),
        ];
        assert_eq!(
            shown(rest),
            [
                "adjustment* args:->\"a\" hooks[poststart]:->\"x\"",
                "adjustment memory.limit:->7 hooks[poststart]:->\"y\"",
                "created",
                "started*",
                "update memory.limit:->8",
                "update* memory.limit:8>9 pids.limit:->3"
            ]
        );
        // All of it is there.
        let all = record.iter().map(|line| AuditLine { from_record: false, ..line.clone() });
        assert!(shown(all.collect()).iter().all(|line| !line.contains('*')));
    }
}
