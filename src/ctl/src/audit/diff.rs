//! `nrictl explain --diff`: what plugins changed in `config.json`, as a unified diff.
//!
//! The audit log has the changed values, and not the file: both sides of the diff have these values
//! and the keys that lead to them. Updates do not change `config.json`, and are left out.

use crate::{
    audit::history::{ContainerHistory, FieldHistory, FieldStep},
    units::size_of_field,
};
use nri_files::AuditEvent;
use serde_json::{Map, Value};
use similar::TextDiff;

/// Path of environment variables, which are `NAME=VALUE` in `config.json`.
const VARIABLES: &str = "/process/env/-";

/// Maximum number of keys above a value. Fields have a few; a damaged file may have any number, and
/// documents are read and written by recursion.
const MAX_KEYS: usize = 32;

/// Number of unchanged lines that the diff shows around each change. Without the keys above it, a
/// value would not show which field it has.
const ALL_LINES: usize = 1 << 20;

/// Returns the diff; empty if no plugin has adjusted the container.
pub(super) fn unified(history: &ContainerHistory) -> String {
    let (mut before, mut after) = (Value::Object(Map::new()), Value::Object(Map::new()));
    for field in history.fields.iter().filter(|field| !field.path.is_empty()) {
        let is_adjustment = |step: &&FieldStep| step.event == AuditEvent::Adjustment;
        let mut steps = field.changes.iter().filter(is_adjustment);
        let Some(first) = steps.next() else { continue };
        let last = steps.next_back().unwrap_or(first);
        let (old, new) = (first.before.as_ref(), last.after.as_ref());
        // Different values are equal in the log if they are masked, or very long.
        let is_hidden = old.is_some() && old == new;
        let marked = new.filter(|_| is_hidden).map(|value| format!("{} (changed)", text(value)));
        let sized = |value: Option<&Value>| value.map(|value| with_size(&field.field, value));
        set(&mut before, field, sized(old).as_ref());
        set(&mut after, field, marked.map(Value::from).or(sized(new)).as_ref());
    }
    let text = |document: &Value| {
        let text = format!("{document:#}\n");
        text.replace(&format!("\"{REMARK}"), "").replace(&format!("{REMARK}\""), "")
    };
    let (before, after) = (text(&before), text(&after));
    TextDiff::from_lines(&before, &after)
        .unified_diff()
        .context_radius(ALL_LINES)
        .header("config.json", "config.json (adjusted)")
        .to_string()
}

/// What begins and ends a text that stands for a number and a remark, as JSON writes it.
const REMARK: &str = "\\u0001";

/// Returns a value with its size for people, if it is one in bytes.
fn with_size(field: &str, value: &Value) -> Value {
    match (value, size_of_field(field, value)) {
        (Value::Number(number), Some(size)) => format!("\u{1}{number} ({size})\u{1}").into(),
        (Value::Object(limit), Some(_)) => {
            let sized = |(key, value): (&String, &Value)| match key.as_str() {
                "limit" => (key.clone(), with_size(field, value)),
                _ => (key.clone(), value.clone()),
            };
            Value::Object(limit.iter().map(sized).collect())
        }
        (value, _) => value.clone(),
    }
}

/// Sets a field in a document. Its parents are created even if it has no value, so that both
/// documents have the same keys.
fn set(document: &mut Value, field: &FieldHistory, value: Option<&Value>) {
    let mut keys: Vec<String> = field.path.split('/').skip(1).map(unescaped).collect();
    if keys.len() > MAX_KEYS {
        return;
    }
    let Some(last) = keys.pop() else { return };
    let is_entry = last == "-";
    let parents = if is_entry { &keys[..keys.len().saturating_sub(1)] } else { &keys[..] };
    let mut parent = document;
    for key in parents {
        let Value::Object(fields) = parent else { return };
        parent = fields.entry(key.as_str()).or_insert_with(|| Value::Object(Map::new()));
    }
    let Value::Object(fields) = parent else { return };
    if !is_entry {
        if let Some(value) = value {
            fields.insert(last, value.clone());
        }
    } else if let Some(list) = keys.last() {
        let list = fields.entry(list.as_str()).or_insert_with(|| Value::Array(Vec::new()));
        if let (Value::Array(list), Some(value)) = (list, value) {
            list.push(entry(field, value));
        }
    }
}

/// Returns an entry of a list as `config.json` has it.
fn entry(field: &FieldHistory, value: &Value) -> Value {
    let name = field.field.strip_prefix("env[").and_then(|name| name.strip_suffix(']'));
    match (name, value) {
        (Some(name), Value::String(value)) if field.path == VARIABLES => {
            format!("{name}={value}").into()
        }
        _ => value.clone(),
    }
}

/// Returns a value without the quotes of a string.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns a key of a JSON pointer without escapes (RFC 6901).
fn unescaped(key: &str) -> String {
    key.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_files::{AuditLine, FieldChange};
    use serde_json::json;

    #[test]
    fn the_diff_has_the_changed_values_where_config_json_has_them() {
        let change = |field: &str, path: &str, before: Value, after: Value| FieldChange {
            field: field.into(),
            path: path.into(),
            before: Some(before).filter(|v| !v.is_null()),
            after: Some(after).filter(|v| !v.is_null()),
        };
        let line = |event, changes| AuditLine {
            container: "c".into(),
            event,
            changes,
            ..AuditLine::default()
        };
        let pids =
            |before, after| change("pids.limit", "/linux/resources/pids/limit", before, after);
        let history = ContainerHistory::of(
            vec![
                line(
                    AuditEvent::Adjustment,
                    vec![
                        change("env[A]", VARIABLES, Value::Null, json!("***")),
                        change("env[B]", VARIABLES, json!("***"), json!("***")),
                        change("annotations[x/y]", "/annotations/x~1y", json!("1"), Value::Null),
                        pids(json!(1), json!(2)),
                    ],
                ),
                line(AuditEvent::Update, vec![pids(json!(2), json!(3))]),
                // Of a damaged file.
                line(
                    AuditEvent::Adjustment,
                    vec![change("x", &"/a".repeat(100_000), Value::Null, json!(1))],
                ),
            ],
            "c",
        );
        assert_eq!(
            unified(&history.unwrap()).lines().collect::<Vec<_>>(),
            [
                "--- config.json",
                "+++ config.json (adjusted)",
                "@@ -1,17 +1,16 @@",
                " {",
                "   \"process\": {",
                "     \"env\": [",
                "-      \"B=***\"",
                "+      \"A=***\",",
                "+      \"B=*** (changed)\"",
                "     ]",
                "   },",
                "-  \"annotations\": {",
                "-    \"x/y\": \"1\"",
                "-  },",
                "+  \"annotations\": {},",
                "   \"linux\": {",
                "     \"resources\": {",
                "       \"pids\": {",
                "-        \"limit\": 1",
                "+        \"limit\": 2",
                "       }",
                "     }",
                "   }",
                " }",
            ]
        );
    }
}
