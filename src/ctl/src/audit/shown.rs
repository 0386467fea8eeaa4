//! What `nrictl explain` says of changes, in its text and on its page.

use crate::audit::{
    events::shown_value,
    filter::shown_time,
    history::{ContainerHistory, FieldStep},
};
use nri_files::AuditEvent;

/// What a person has to know of changes in `mode = "shadow"`.
pub(super) const SHADOW: &str =
    "mode = \"shadow\": nothing was changed; plugins would have changed";

/// Returns who changed a field, or would have.
pub(super) fn shown_author(step: &FieldStep) -> String {
    match step.event {
        AuditEvent::WouldAdjust if step.message.is_empty() => format!("{} (shadow)", step.by),
        _ if !step.message.is_empty() => format!("{} ({})", step.by, step.message),
        _ => step.by.clone(),
    }
}

/// Returns when a field was changed, if that is known, and whether it is from the record.
pub(super) fn shown_step_time(step: &FieldStep) -> String {
    let mark = if step.from_record { "(record)" } else { "" };
    format!("{} {mark}", shown_time(&step.time)).trim().to_owned()
}

/// Returns what the engine requested in place of what plugins set, a line for each resource, and
/// that the engine does not know of plugins.
pub(super) fn requests(history: &ContainerHistory) -> Vec<String> {
    let engine = history.engine();
    let mut lines = Vec::new();
    for field in &history.fields {
        let (Some(requested), Some(last)) = (&field.requested, field.changes.last()) else {
            continue;
        };
        let (name, by) = (&field.field, &last.by);
        let requested = match requested {
            Some(value) => format!("{name} {}", shown_value(name, value)),
            None => format!("no {name}"),
        };
        let set = match &field.after {
            Some(value) => format!("set it to {}", shown_value(name, value)),
            None => "removed it".to_owned(),
        };
        lines.push(format!("{engine} requested {requested}, {by} {set}"));
    }
    if !lines.is_empty() {
        let command = match engine {
            "docker" | "podman" => format!(" ({engine} inspect)"),
            _ => String::new(),
        };
        lines.push(format!("what {engine} itself shows{command} stays as it was requested"));
    }
    lines
}
