//! Creations in `mode = "shadow"`: logs the changes that would have been made.

use crate::{
    resources::description::described,
    service::Service,
    verb::creation::{adjusted_config::Agreed, draft::Draft},
};
use nri_api::{
    Access, RESOURCE_FIELDS, entry_name, field_name,
    proto::{Container, Field, OwningPlugins},
};
use nri_control::mask_hook;
use nri_merge::CreateOutcome;
use serde_json::Value;

/// Maximum number of changes that are logged for one `config.json`: enough to show what plugins
/// change.
const MAX_LOGGED_CHANGES: usize = 100;

/// Place of the environment variables in an OCI config.
const VARIABLES: &str = "/process/env";

/// Place of the hooks.
const HOOKS: &str = "/hooks";

impl Service {
    /// Logs the changes that a creation's outcome would have made.
    pub(super) async fn log_shadow(&self, draft: &Draft, agreed: Agreed) {
        let (container, pod) = (&draft.key.id, draft.pod_id());
        let Agreed { outcome, host } = agreed;
        let adjusted = match host {
            Ok(host) => self.adjust_checked(draft, &outcome, &host).await,
            Err(error) => Err(error.into()),
        };
        match adjusted {
            Ok(adjusted) => {
                for change in differences(draft.config.value(), adjusted.config.value()) {
                    tracing::info!(container, pod, change, "shadow: would change");
                }
            }
            Err(error) => {
                let error = error.line(container);
                tracing::info!(container, pod, error, "shadow: would be refused");
            }
        }
        for update in &outcome.updates {
            let fields = described(update);
            tracing::info!(container = update.container_id, fields, "shadow: would be updated");
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

/// Fields that are not resources, and their places in an OCI config. The rest of a place is a key
/// if the field has keys there.
const PLACES: &[(&str, Field, bool)] = &[
    ("/annotations", Field::Annotations, true),
    ("/mounts", Field::Mounts, false),
    (HOOKS, Field::OciHooks, false),
    (VARIABLES, Field::Env, false),
    ("/process/args", Field::Args, false),
    ("/process/rlimits", Field::Rlimits, false),
    ("/process/oomScoreAdj", Field::OomScoreAdj, false),
    ("/process/ioPriority", Field::IoPriority, false),
    ("/process/scheduler", Field::LinuxSched, false),
    ("/linux/devices", Field::Devices, false),
    ("/linux/namespaces", Field::Namespace, false),
    ("/linux/netDevices", Field::LinuxNetDevices, true),
    ("/linux/sysctl", Field::Sysctl, true),
    ("/linux/seccomp", Field::SeccompPolicy, false),
    ("/linux/cgroupsPath", Field::CgroupsPath, false),
    ("/linux/memoryPolicy", Field::MemoryPolicy, false),
];

/// Returns the name of the field at a JSON pointer; the pointer itself if it is of no field.
fn name_at(pointer: &str) -> String {
    let below = |place: &str| {
        let rest = pointer.strip_prefix(place)?;
        if rest.is_empty() { Some("") } else { rest.strip_prefix('/') }
    };
    for row in RESOURCE_FIELDS.iter().filter(|row| !row.path.is_empty()) {
        match below(&format!("/linux/resources/{}", row.path.join("/"))) {
            Some("") => return row.name.to_owned(),
            Some(key) if matches!(row.access, Access::Entries(_)) => {
                return entry_name(row.name, &unescaped(key));
            }
            _ => {}
        }
    }
    for (place, field, has_keys) in PLACES {
        let name = field_name(*field);
        match below(place) {
            Some("") => return name.to_owned(),
            Some(key) if *has_keys => return entry_name(name, &unescaped(key)),
            Some(rest) => return format!("{name}.{}", rest.replace('/', ".")),
            None => {}
        }
    }
    match below("/linux/intelRdt") {
        Some(key) if !key.is_empty() => format!("rdt.{key}"),
        _ => pointer.to_owned(),
    }
}

/// Returns the differences of two OCI configs, each as text: field, old value, new value.
fn differences(before: &Value, after: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", before, after, &mut found);
    found
}

fn compare(path: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    if before == after || found.len() >= MAX_LOGGED_CHANGES {
        return;
    }
    let empty = Value::Object(Default::default());
    let is_new_object = before.is_null() && after.as_object().is_some_and(|new| !new.is_empty());
    let before = if is_new_object { &empty } else { before };
    let none = Value::Array(Vec::new());
    let listed = |value| if path == VARIABLES && value == &Value::Null { &none } else { value };
    let (before, after) = (listed(before), listed(after));
    let name = name_at(path);
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
        (Value::Array(old), Value::Array(new)) if path == VARIABLES => {
            let missing = |list: &[Value], other: &[Value], sign: &str| -> Vec<String> {
                let changed = list.iter().filter(|entry| !other.contains(entry));
                changed.map(|entry| format!("{name}: {sign} {}", variable(entry))).collect()
            };
            let changes = missing(old, new, "-").into_iter().chain(missing(new, old, "+"));
            found.extend(changes.take(MAX_LOGGED_CHANGES - found.len()));
        }
        (Value::Array(old), Value::Array(new)) => {
            let removed = old
                .iter()
                .filter(|value| !new.contains(value))
                .map(|value| format!("{name}: - {}", shown(path, value)));
            let added = new
                .iter()
                .filter(|value| !old.contains(value))
                .map(|value| format!("{name}: + {}", shown(path, value)));
            let before = found.len();
            found.extend(removed.chain(added).take(MAX_LOGGED_CHANGES - before));
            if found.len() == before {
                found.push(format!("{name}: same values in another order or number"));
            }
        }
        _ => found.push(format!("{name}: {} -> {}", shown(path, before), shown(path, after))),
    }
}

/// Returns the JSON of a value, without the values of variables in the environment of hooks.
fn shown(path: &str, value: &Value) -> String {
    let mut value = value.clone();
    if path == HOOKS || path.starts_with(&format!("{HOOKS}/")) {
        mask_hooks(&mut value);
    }
    value.to_string()
}

/// Masks the environment of a hook, or of all hooks in a list or in `hooks`.
fn mask_hooks(value: &mut Value) {
    match value {
        Value::Array(hooks) => hooks.iter_mut().for_each(mask_hooks),
        Value::Object(hook) if hook.contains_key("path") => mask_hook(value),
        Value::Object(stages) => stages.values_mut().for_each(mask_hooks),
        _ => {}
    }
}

/// Returns the name of an environment variable. Values are often secrets, and logs are read by more
/// people than a container's `config.json`.
fn variable(entry: &Value) -> &str {
    entry.as_str().and_then(|entry| entry.split('=').next()).unwrap_or("(not a string)")
}

/// Reverses [`escaped`].
fn unescaped(name: &str) -> String {
    name.replace("~1", "/").replace("~0", "~")
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
    fn differences_have_the_names_of_fields() {
        let after = json!({"linux": {
            "resources": {
                "memory": {"limit": 1}, "unified": {"memory.high": "1"}, "blockIO": {"weight": 9},
                "hugepageLimits": [{"pageSize": "2MB"}]
            },
            "intelRdt": {"closID": "gold"}, "sysctl": {"net.a": "1"}, "cgroupsPath": "/c"
        }, "hooks": {"poststop": [1]}, "hostname": "h"});
        assert_eq!(
            differences(&json!({}), &after),
            [
                "memory.limit: null -> 1",
                "unified[memory.high]: null -> \"1\"",
                "blockIO.weight: null -> 9",
                "hugepageLimits: null -> [{\"pageSize\":\"2MB\"}]",
                "rdt.closID: null -> \"gold\"",
                "sysctl[net.a]: null -> \"1\"",
                "cgroups_path: null -> \"/c\"",
                "hooks.poststop: null -> [1]",
                "/hostname: null -> \"h\""
            ]
        );
    }

    #[test]
    fn differences_have_no_values_of_the_environment_of_hooks() {
        let hook = json!({"path": "/h", "env": ["TOKEN=secret"]});
        let none = json!({"path": "/h"});
        let masked = r#"{"path":"/h","env":["TOKEN=***"]}"#;
        let poststop = |hooks: &[&Value]| json!({"hooks": {"poststop": hooks}});
        for (before, after, expected) in [
            (json!({}), poststop(&[&hook]), format!("hooks.poststop: null -> [{masked}]")),
            (poststop(&[&none]), poststop(&[&none, &hook]), format!("hooks.poststop: + {masked}")),
            (poststop(&[&hook, &none]), poststop(&[&none]), format!("hooks.poststop: - {masked}")),
            (poststop(&[&hook]), json!({}), format!(r#"hooks: {{"poststop":[{masked}]}} -> null"#)),
        ] {
            assert_eq!(differences(&before, &after), [expected]);
        }
    }

    #[test]
    fn differences_have_no_no_values_of_environment_variables() {
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
                r#"annotations[x/y]: "1" -> null"#,
                "/new: null -> true"
            ]
        );
        let process = |env: Value| json!({"process": {"env": env}});
        assert_eq!(
            differences(
                &process(json!(["A=secret", "B=2"])),
                &process(json!(["A=other", "B=2", "C=secret"]))
            ),
            ["env: - A", "env: + A", "env: + C"],
            "values of variables must not be logged"
        );
        let process = json!({"process": {"env": ["A=secret"]}});
        assert_eq!(differences(&json!({"process": {}}), &process), ["env: + A"]);
        assert_eq!(differences(&process, &json!({"process": {}})), ["env: - A"]);
        assert_eq!(
            differences(&json!([1, 2]), &json!([2, 1])),
            [": same values in another order or number"]
        );
        assert_eq!(differences(&before, &before), [""; 0]);
    }
}
