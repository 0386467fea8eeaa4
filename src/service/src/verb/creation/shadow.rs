//! Creations in `mode = "shadow"`: logs the changes that would have been made.

use crate::{
    service::Service,
    verb::creation::{adjusted_config::Agreed, draft::Draft},
};
use nri_api::proto::{Container, OwningPlugins};
use nri_merge::CreateOutcome;
use serde_json::Value;

/// Maximum number of changes that are logged for one `config.json`: enough to show what plugins
/// change.
const MAX_LOGGED_CHANGES: usize = 100;

impl Service {
    /// Logs the changes that a creation's outcome would have made.
    pub(super) async fn log_shadow(&self, draft: &Draft, agreed: Agreed) {
        let (container, Agreed { outcome, host }) = (&draft.key.id, agreed);
        let adjusted = match host {
            Ok(host) => self.adjust_checked(draft, &outcome, &host).await,
            Err(error) => Err(error.into()),
        };
        match adjusted {
            Ok(adjusted) => {
                for change in differences(draft.config.value(), adjusted.config.value()) {
                    tracing::info!(container, change, "shadow: would change");
                }
            }
            Err(error) => {
                let error = error.line(container);
                tracing::info!(container, error, "shadow: would be refused");
            }
        }
        for update in &outcome.updates {
            tracing::info!(container = update.container_id, ?update, "shadow: would be updated");
        }
        for eviction in &outcome.evictions {
            tracing::info!(
                container = eviction.container_id,
                reason = eviction.reason,
                "shadow: would be evicted"
            );
        }
    }
}

/// Returns the outcome of a creation that no plugin adjusts.
pub(super) fn unadjusted(container: Container) -> CreateOutcome {
    let request = nri_api::proto::CreateContainerRequest {
        container: Some(container).into(),
        ..Default::default()
    };
    let mut outcome =
        nri_merge::CreateMerge::new(Default::default(), request.container.unwrap_or_default())
            .finish();
    outcome.owners = OwningPlugins::default();
    outcome
}

/// Returns the differences of two OCI configs, each as text: JSON pointer, old value, new value.
fn differences(before: &Value, after: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", before, after, &mut found);
    found
}

fn compare(path: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    if before == after || found.len() >= MAX_LOGGED_CHANGES {
        return;
    }
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
            for name in names {
                let field = |fields: &serde_json::Map<String, Value>| {
                    fields.get(name).cloned().unwrap_or_default()
                };
                compare(&format!("{path}/{}", escaped(name)), &field(old), &field(new), found);
            }
        }
        (Value::Array(old), Value::Array(new)) if path == "/process/env" => {
            let missing = |list: &[Value], other: &[Value], sign: &str| -> Vec<String> {
                let changed = list.iter().filter(|entry| !other.contains(entry));
                changed.map(|entry| format!("{path}: {sign} {}", variable(entry))).collect()
            };
            let changes = missing(old, new, "-").into_iter().chain(missing(new, old, "+"));
            found.extend(changes.take(MAX_LOGGED_CHANGES - found.len()));
        }
        (Value::Array(old), Value::Array(new)) => {
            let removed = old
                .iter()
                .filter(|value| !new.contains(value))
                .map(|value| format!("{path}: - {value}"));
            let added = new
                .iter()
                .filter(|value| !old.contains(value))
                .map(|value| format!("{path}: + {value}"));
            let before = found.len();
            found.extend(removed.chain(added).take(MAX_LOGGED_CHANGES - before));
            if found.len() == before {
                found.push(format!("{path}: same values in another order or number"));
            }
        }
        _ => found.push(format!("{path}: {before} -> {after}")),
    }
}

/// Returns the name of an environment variable. Values are often secrets, and logs are read by more
/// people than a container's `config.json`.
fn variable(entry: &Value) -> &str {
    entry.as_str().and_then(|entry| entry.split('=').next()).unwrap_or("(not a string)")
}

/// Escapes a name for a JSON pointer (RFC 6901).
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_long_list_has_no_more_differences_than_are_logged() {
        let many: Vec<usize> = (0..MAX_LOGGED_CHANGES + 1).collect();
        for name in ["mounts", "process/env"] {
            let mut found = Vec::new();
            compare(&format!("/{name}"), &json!([]), &json!(many), &mut found);
            assert_eq!(found.len(), MAX_LOGGED_CHANGES, "{name}");
        }
    }

    #[test]
    fn differences_have_no_values_of_environment_variables() {
        let before =
            json!({"a": {"b": 1, "same": 1}, "env": ["A=1", "B=2"], "annotations": {"x/y": "1"}});
        let after = json!({
            "a": {"b": 2, "same": 1},
            "env": ["B=2", "C=3"],
            "annotations": {},
            "new": true
        });
        assert_eq!(
            differences(&before, &after),
            [
                "/a/b: 1 -> 2",
                r#"/env: - "A=1""#,
                r#"/env: + "C=3""#,
                r#"/annotations/x~1y: "1" -> null"#,
                "/new: null -> true"
            ]
        );
        let process = |env: Value| json!({"process": {"env": env}});
        assert_eq!(
            differences(
                &process(json!(["A=secret", "B=2"])),
                &process(json!(["A=other", "B=2", "C=secret"]))
            ),
            ["/process/env: - A", "/process/env: + A", "/process/env: + C"],
            "values of variables must not be logged"
        );
        assert_eq!(
            differences(&json!([1, 2]), &json!([2, 1])),
            [": same values in another order or number"]
        );
        assert_eq!(differences(&before, &before), [""; 0]);
    }
}
