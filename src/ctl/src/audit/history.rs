//! What the audit log says of one container, by field.

use crate::{audit::filter::is_container, error::CtlError};
use nri_control::{AuditEvent, AuditLine, FieldChange, MissedPlugin};
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
    /// `adjustment` or `update`.
    pub(super) event: AuditEvent,
    /// Value before the change; null if there was none.
    pub(super) before: Option<Value>,
    /// Value after the change; null if the field was removed.
    pub(super) after: Option<Value>,
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
    /// All changes, in their order.
    pub(super) changes: Vec<FieldStep>,
}

/// All that the audit log says of the last creation of a container.
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

impl ContainerHistory {
    /// Collects the lines of one container.
    ///
    /// # Errors
    /// No line, or the lines of several containers, match `wanted`.
    pub(super) fn of(lines: Vec<AuditLine>, wanted: &str) -> Result<Self, CtlError> {
        let mut lines: Vec<_> = lines.into_iter().filter(|l| is_container(l, wanted)).collect();
        let mut same_name = BTreeSet::new();
        // A container of exactly this id or name takes precedence over those that begin with it;
        // of several with one name, the last one is meant.
        if let Some(exact) = lines.iter().rev().find(|l| l.container == wanted || l.name == wanted)
        {
            let id = exact.container.clone();
            let others = lines.iter().filter(|l| l.container != id && l.name == wanted);
            same_name.extend(others.map(|line| line.container.clone()));
            lines.retain(|line| line.container == id);
        }
        let ids: BTreeSet<_> = lines.iter().map(|line| line.container.clone()).collect();
        if ids.len() > 1 {
            let ids = ids.into_iter().take(5).collect();
            return Err(CtlError::Ambiguous { wanted: wanted.to_owned(), ids });
        }
        let last = lines.last().ok_or_else(|| CtlError::NoHistory(wanted.to_owned()))?;
        let creation = last.creation;
        let mut earlier: BTreeSet<_> = lines.iter().map(|line| line.creation).collect();
        earlier.remove(&creation);
        earlier.remove(&0);
        lines.retain(|line| line.creation == creation);
        let names = AuditedNames::of(&lines);
        let earlier_creations = earlier.len();
        let fields = fields(&lines);
        let is_note = |event| {
            use AuditEvent::{Eviction, Failed, Ignored, Refusal};
            matches!(event, Refusal | Eviction | Ignored | Failed)
        };
        let consulted = lines.iter().find(|line| line.event == AuditEvent::Consulted);
        let (plugins, missed) =
            consulted.map(|l| (l.plugins.clone(), l.missed.clone())).unwrap_or_default();
        let notes = lines.iter().filter(|line| is_note(line.event)).cloned().collect();
        let events = lines;
        Ok(Self { names, fields, notes, plugins, missed, events, earlier_creations, same_name })
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

/// Returns who made the changes of a line.
pub(super) fn author(line: &AuditLine) -> &str {
    match (line.plugin.as_str(), line.event) {
        ("", AuditEvent::Update) => "engine",
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

/// Returns the changes by field.
fn fields(lines: &[AuditLine]) -> Vec<FieldHistory> {
    let mut found: Vec<FieldHistory> = Vec::new();
    for line in
        lines.iter().filter(|l| matches!(l.event, AuditEvent::Adjustment | AuditEvent::Update))
    {
        let by = author(line);
        for FieldChange { field, path, before, after } in &line.changes {
            let step = FieldStep {
                time: line.time.clone(),
                by: by.to_owned(),
                event: line.event,
                before: before.clone(),
                after: after.clone(),
            };
            // Entries that are appended to one list have one name, and are not changed later.
            let is_known = |known: &&mut FieldHistory| {
                known.field == *field && (before.is_some() || known.after.is_none())
            };
            match found.iter_mut().find(is_known) {
                Some(known) => {
                    known.after.clone_from(after);
                    known.changes.push(step);
                }
                None => found.push(FieldHistory {
                    field: field.clone(),
                    path: path.clone(),
                    before: before.clone(),
                    after: after.clone(),
                    changes: vec![step],
                }),
            }
        }
    }
    found
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
