//! What the audit log says of one container, by field, completed from the container's record.

use crate::audit::{filter::match_of, record};
use nri_control::{Ambiguous, ContainerDescription, Match};
use nri_files::{AuditEvent, AuditLine, FieldChange, MissedPlugin};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;

/// A change of a field.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct FieldStep {
    /// Time of the change.
    pub(super) time: String,
    /// The plugins, or `engine`.
    pub(super) by: String,
    /// `adjustment`, `update` or `would_adjust`.
    pub(super) event: AuditEvent,
    /// Value before the change; null if there was none.
    pub(super) before: Option<Value>,
    /// Value after the change; null if the field was removed.
    pub(super) after: Option<Value>,
    /// Reason of a change that undoes another one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
    /// Whether the audit log has no entry of it, but the container's record.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) from_record: bool,
}

/// A field that was changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct FieldHistory {
    /// Name of the field.
    pub(super) field: String,
    /// JSON pointer in `config.json`, as in the audit log.
    pub(super) path: String,
    /// Value before the first change.
    pub(super) before: Option<Value>,
    /// Value after the last change.
    pub(super) after: Option<Value>,
    /// For a resource that has not the value that the engine requested last: that value, null if
    /// the engine requested none. The engine itself keeps showing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) requested: Option<Option<Value>>,
    /// All changes, in their order.
    pub(super) changes: Vec<FieldStep>,
}

/// All that is known of the last creation of a container.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ContainerHistory {
    /// The names of the container, as the last line has them.
    #[serde(flatten)]
    pub(super) names: AuditedNames,
    /// The fields that were changed, in the order of their first change.
    pub(super) fields: Vec<FieldHistory>,
    /// Refusals, evictions and failures, and what was ignored.
    pub(super) notes: Vec<AuditLine>,
    /// The plugins that received the creation, in the order of their calls.
    pub(super) plugins: Vec<String>,
    /// Plugins without which the container was created.
    pub(super) missed: Vec<MissedPlugin>,
    /// All lines.
    pub(super) events: Vec<AuditLine>,
    /// Number of earlier creations with this id, of which lines are kept.
    pub(super) earlier_creations: usize,
    /// Ids of other containers with this name, of which lines are kept.
    pub(super) same_name: BTreeSet<String>,
}

/// Names of a container.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct AuditedNames {
    /// Id at the engine.
    pub(super) container: String,
    /// Name.
    pub(super) name: String,
    /// Id of the pod; empty without one.
    pub(super) pod: String,
    /// Name of the pod.
    pub(super) pod_name: String,
    /// Namespace of the pod.
    pub(super) namespace: String,
    /// Engine.
    pub(super) engine: String,
    /// The real runtime.
    pub(super) runtime: String,
}

/// Returns the id of the container that `wanted` means, of those in the log, and how it is named.
/// Of several with one name, the last one is meant: names of containers that are gone are used
/// again.
///
/// # Errors
/// Several ids begin with `wanted`.
pub(super) fn meant(
    lines: &[AuditLine],
    wanted: &str,
) -> Result<Option<(Match, String)>, Ambiguous> {
    let matches = lines.iter().filter_map(|line| Some((match_of(line, wanted)?, &line.container)));
    let (rank, found) = Match::best(matches);
    let ids: BTreeSet<_> = found.iter().collect();
    if rank == Some(Match::Prefix) && ids.len() > 1 {
        return Err(Ambiguous::new("containers", wanted, &Vec::from_iter(ids)));
    }
    Ok(rank.zip(found.last().map(|id| (*id).clone())))
}

impl ContainerHistory {
    /// Collects what `lines`, which are of any containers, and the record say of the container with
    /// this id. `wanted` is how a person named it.
    pub(super) fn new(
        lines: Vec<AuditLine>,
        id: &str,
        wanted: &str,
        record: Option<&ContainerDescription>,
    ) -> Self {
        let others = lines.iter().filter(|line| line.container != id && line.name == wanted);
        let same_name = others.map(|line| line.container.clone()).collect();
        let mut lines: Vec<_> = lines.into_iter().filter(|line| line.container == id).collect();
        let recorded = record.map_or(&[][..], |record| &record.recorded);
        let creation = recorded.first().or(lines.last()).map_or(0, |line| line.creation);
        let mut earlier: BTreeSet<_> = lines.iter().map(|line| line.creation).collect();
        earlier.remove(&creation);
        earlier.remove(&0);
        lines.retain(|line| line.creation == creation);
        record::complete(&mut lines, recorded);
        let mut names = AuditedNames::of(&lines);
        if let Some(record) = record {
            names.name.clone_from(&record.summary.name);
        }
        let earlier_creations = earlier.len();
        let fields = fields(&lines, record.map(|record| &record.requested));
        let is_note = |event| {
            use AuditEvent::{Eviction, Failed, Ignored, Refusal, WouldRefuse};
            matches!(event, Refusal | Eviction | Ignored | Failed | WouldRefuse)
        };
        let consulted = lines.iter().find(|line| line.event == AuditEvent::Consulted);
        let (plugins, missed) =
            consulted.map(|l| (l.plugins.clone(), l.missed.clone())).unwrap_or_default();
        let notes = lines.iter().filter(|line| is_note(line.event)).cloned().collect();
        let events = lines;
        Self { names, fields, notes, plugins, missed, events, earlier_creations, same_name }
    }

    /// As [`ContainerHistory::new`], from the log alone.
    #[cfg(test)]
    pub(super) fn of(lines: Vec<AuditLine>, wanted: &str) -> Result<Self, crate::error::CtlError> {
        let unknown = || crate::error::CtlError::NoHistory(wanted.to_owned());
        let (_, id) = meant(&lines, wanted)?.ok_or_else(unknown)?;
        Ok(Self::new(lines, &id, wanted, None))
    }

    /// Whether nothing was changed, because of `mode = "shadow"`.
    pub(super) fn is_shadow(&self) -> bool {
        let is_shadow =
            |line: &AuditLine| line.event == AuditEvent::WouldAdjust && line.message.is_empty();
        self.events.iter().any(is_shadow)
    }

    /// Returns the word for the engine: its name, if that is known.
    pub(super) fn engine(&self) -> &str {
        if self.names.engine.is_empty() { "the engine" } else { &self.names.engine }
    }
}

impl AuditedNames {
    fn of(lines: &[AuditLine]) -> Self {
        let mut names = Self::default();
        for line in lines {
            for (name, value) in [
                (&mut names.container, &line.container),
                (&mut names.name, &line.name),
                (&mut names.pod, &line.pod),
                (&mut names.pod_name, &line.pod_name),
                (&mut names.namespace, &line.namespace),
                (&mut names.engine, &line.engine),
                (&mut names.runtime, &line.runtime),
            ] {
                if !value.is_empty() {
                    name.clone_from(value);
                }
            }
        }
        names
    }
}

/// Author of the changes that the engine requested.
const ENGINE: &str = "engine";

/// Returns who made the changes of a line.
pub(super) fn author(line: &AuditLine) -> &str {
    match (line.plugin.as_str(), line.event) {
        ("", AuditEvent::Update) => ENGINE,
        // The record has no owners of hooks and device rules.
        ("", AuditEvent::Adjustment) if line.from_record => "not recorded",
        // What follows from changes of plugins.
        ("", AuditEvent::Adjustment) => "nrid",
        ("", _) => "-",
        (plugin, _) => plugin,
    }
}

/// Whether an event is of the life of a container.
pub(super) fn is_of_life(event: AuditEvent) -> bool {
    use AuditEvent::{Created, Removed, Started, Stopped};
    matches!(event, Created | Started | Stopped | Removed)
}

/// Returns how a container or its runtime ended, if the line is of an end or has a message.
pub(super) fn shown_end(line: &AuditLine) -> Option<String> {
    // The message of a runtime that failed begins with the exit code.
    let exit_code = line.exit_code.map(|code| format!("exit code {code}"));
    let exit_code = exit_code.filter(|text| !line.message.starts_with(text));
    let message = Some(line.message.clone()).filter(|message| !message.is_empty());
    match (exit_code, message) {
        (Some(code), Some(message)) => Some(format!("{code}, {message}")),
        (code, message) => code.or(message),
    }
}

/// Returns the changes by field. `requested` are the resources that the engine requested last, if
/// they are known from the record.
fn fields(lines: &[AuditLine], requested: Option<&Value>) -> Vec<FieldHistory> {
    use AuditEvent::{Adjustment, Update, WouldAdjust};
    let mut found: Vec<FieldHistory> = Vec::new();
    let is_change = |line: &&AuditLine| matches!(line.event, Adjustment | Update | WouldAdjust);
    for line in lines.iter().filter(is_change) {
        let by = author(line);
        // The message says why one plugin changes nothing, while others do.
        let is_withheld = line.event == WouldAdjust && !line.message.is_empty();
        for FieldChange { field, path, before, after } in &line.changes {
            let step = FieldStep {
                time: line.time.clone(),
                by: by.to_owned(),
                event: line.event,
                before: before.clone(),
                after: after.clone(),
                message: line.message.clone(),
                from_record: line.from_record,
            };
            // Entries that are appended to one list have one name, and are not changed later.
            let is_known = |known: &&mut FieldHistory| {
                known.field == *field && (before.is_some() || known.after.is_none())
            };
            match found.iter_mut().find(is_known) {
                Some(known) => {
                    if !is_withheld {
                        known.after.clone_from(after);
                    }
                    known.changes.push(step);
                }
                None => found.push(FieldHistory {
                    field: field.clone(),
                    path: path.clone(),
                    before: before.clone(),
                    after: if is_withheld { before.clone() } else { after.clone() },
                    requested: None,
                    changes: vec![step],
                }),
            }
        }
    }
    for field in &mut found {
        field.requested = field.differs_from_request(requested);
    }
    found
}

impl FieldHistory {
    /// Returns what the engine requested last, if plugins have set another value.
    fn differs_from_request(&self, requested: Option<&Value>) -> Option<Option<Value>> {
        let path = self.path.strip_prefix("/linux/resources").filter(|path| !path.is_empty())?;
        let made = || self.changes.iter().filter(|step| step.event != AuditEvent::WouldAdjust);
        if made().next_back()?.by == ENGINE {
            return None;
        }
        let of_engine = made().rfind(|step| step.by == ENGINE);
        let last = of_engine.map_or(&self.before, |step| &step.after);
        // The record has no entries of lists by themselves.
        let value = match requested.filter(|_| !path.ends_with("/-")) {
            Some(requested) => requested.pointer(path).filter(|value| !value.is_null()).cloned(),
            None => last.clone(),
        };
        (value != self.after).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(container: &str, creation: i64, event: AuditEvent, plugin: &str) -> AuditLine {
        AuditLine {
            time: format!("t{creation}"),
            container: container.into(),
            creation,
            event,
            plugin: plugin.into(),
            ..AuditLine::default()
        }
    }

    fn with(line: AuditLine, field: &str, before: Option<i64>, after: Option<i64>) -> AuditLine {
        let change = FieldChange {
            field: field.into(),
            before: before.map(|v| json!(v)),
            after: after.map(|v| json!(v)),
            ..FieldChange::default()
        };
        AuditLine { changes: vec![change], ..line }
    }

    #[test]
    fn a_field_has_all_its_changes_and_the_last_value() {
        use AuditEvent::{Adjustment, Created, Refusal, Update};
        let lines = vec![
            with(line("abc", 1, Adjustment, "10-a"), "memory.limit", None, Some(7)),
            with(line("abc", 2, Adjustment, "10-a"), "memory.limit", None, Some(1)),
            line("abc", 2, Created, ""),
            with(line("abc", 2, Update, ""), "memory.limit", Some(1), Some(2)),
            with(line("abc", 2, Update, "20-b"), "memory.limit", Some(2), Some(3)),
            with(line("abc", 2, Refusal, "30-c"), "memory.limit", None, None),
            with(line("abd", 3, Adjustment, "10-a"), "memory.limit", None, Some(9)),
        ];
        let history = ContainerHistory::of(lines.clone(), "abc").unwrap();
        let [field] = &history.fields[..] else { panic!("{:?}", history.fields) };
        assert_eq!((&field.before, &field.after), (&None, &Some(json!(3))));
        let by: Vec<_> = field.changes.iter().map(|step| step.by.as_str()).collect();
        assert_eq!(by, ["10-a", "engine", "20-b"]);
        assert_eq!((history.notes.len(), history.events.len()), (1, 5));
        assert_eq!(history.earlier_creations, 1);
        let error = ContainerHistory::of(lines.clone(), "ab").unwrap_err().to_string();
        assert!(error.contains("abc, abd"), "{error}");
        let named: Vec<_> =
            lines.iter().cloned().map(|l| AuditLine { name: "web".into(), ..l }).collect();
        let history = ContainerHistory::of(named, "web").unwrap();
        assert_eq!((&*history.names.container, history.same_name), ("abd", ["abc".into()].into()));
        let error = ContainerHistory::of(lines, "x").unwrap_err().to_string();
        assert!(error.contains("\"x\""), "{error}");
    }

    #[test]
    fn what_an_observed_plugin_would_change_is_no_value_of_the_field() {
        use AuditEvent::{Adjustment, WouldAdjust};
        let observed = |field, before, after| {
            let line = with(line("c", 1, WouldAdjust, "20-b"), field, before, after);
            AuditLine { message: "observed".into(), ..line }
        };
        let lines = vec![
            with(line("c", 1, Adjustment, "10-a"), "pids.limit", Some(1), Some(2)),
            observed("pids.limit", Some(2), Some(3)),
            observed("cpu.quota", Some(4), Some(5)),
        ];
        let history = ContainerHistory::of(lines, "c").unwrap();
        assert!(!history.is_shadow());
        let [pids, quota] = &history.fields[..] else { panic!("{:?}", history.fields) };
        assert_eq!((&pids.after, &quota.after), (&Some(json!(2)), &Some(json!(4))));
        assert_eq!((pids.changes.len(), quota.changes.len()), (2, 1));
    }

    #[test]
    fn a_field_that_was_removed_and_set_again_is_one_field() {
        let update = |before, after| {
            with(line("c", 1, AuditEvent::Update, "10-a"), "cpu.quota", before, after)
        };
        let lines = vec![update(None, Some(1)), update(Some(1), None), update(None, Some(2))];
        let [field] = &ContainerHistory::of(lines, "c").unwrap().fields[..] else { panic!() };
        assert_eq!((&field.after, field.changes.len()), (&Some(json!(2)), 3));
    }

    #[test]
    fn entries_that_are_appended_under_one_name_are_kept_apart() {
        let appended = |value| {
            let line = line("c", 1, AuditEvent::Adjustment, "10-a");
            with(line, "hooks[poststart]", None, Some(value))
        };
        let history = ContainerHistory::of(vec![appended(1), appended(2)], "c").unwrap();
        let values: Vec<_> = history.fields.iter().map(|f| f.after.clone().unwrap()).collect();
        assert_eq!(values, [1, 2]);
    }
}
