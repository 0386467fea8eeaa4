//! [`AuditLine`]: a line of the audit log, which `nrid` writes and `nrictl` reads. Each line is one
//! JSON object. Fields that do not apply to an event are left out; readers ignore unknown fields.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Name of the audit log in the state directory, unless the configuration names another file.
pub const AUDIT_LOG: &str = "audit.log";

/// Stands for a value that the audit log does not show.
pub const MASKED: &str = "***";

/// Suffix of the previous audit log, to which a file of maximum size is renamed.
pub const PREVIOUS_SUFFIX: &str = ".1";

/// A line of the audit log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AuditLine {
    /// Time in UTC, as in RFC 3339, with microseconds.
    pub time: String,
    /// What happened.
    pub event: AuditEvent,
    /// Plugins that caused the event, as `NN-name`; several are separated by commas. Empty if no
    /// plugin did.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub plugin: String,
    /// Id of the container at its engine and runtime.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub container: String,
    /// Name of the container.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Id of the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// Name of the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod_name: String,
    /// Namespace of the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the engine.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub engine: String,
    /// The real runtime.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runtime: String,
    /// Root directory of the runtime.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub root: String,
    /// Time of the creation in nanoseconds since the epoch: the same in all lines of one container,
    /// and another one for each container that is created with the same id.
    #[serde(skip_serializing_if = "is_zero")]
    pub creation: i64,
    /// The request in which it happened: a verb of the runtime (`create`, `start`, `update`), or
    /// `plugin` for a request of a plugin.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// Plugins that received the request, in the order of their calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<String>,
    /// Plugins without which the container is created.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<MissedPlugin>,
    /// Fields that changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FieldChange>,
    /// Parts of a plugin's reply that had no effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// Reason or error.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Exit code of a container that stopped, or of a runtime that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Number of lines that were lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// Whether the line is not of the log, but made from the record of the container.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub from_record: bool,
}

/// A plugin without which a container was created: the plugin was absent, or did not reply. A
/// plugin that returns is synchronized with the container, but has had no part in its creation.
/// Records of containers have the same form.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MissedPlugin {
    /// Name of the plugin: `NN-name`.
    pub plugin: String,
    /// Why the plugin was not called, or did not reply.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// What a line of the audit log reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditEvent {
    /// Plugins received the creation of a container, or it is created without some of them.
    Consulted,
    /// A plugin adjusted a container that is being created.
    Adjustment,
    /// A plugin, or the engine, updated the resources of a container.
    Update,
    /// A plugin evicted a container.
    Eviction,
    /// A request was refused: a creation, a start, an update, or an update that a plugin requested.
    Refusal,
    /// Parts of a plugin's reply had no effect.
    Ignored,
    /// The runtime has created a container.
    Created,
    /// A container was started.
    Started,
    /// A container has stopped.
    Stopped,
    /// A container was removed.
    Removed,
    /// The runtime failed to create, start or update a container.
    Failed,
    /// A plugin is registered and synchronized.
    PluginRegistered,
    /// The session of a plugin has ended.
    PluginClosed,
    /// `nrid` has ended without a clean stop; written by the next one.
    NridEnded,
    /// A plugin would have adjusted a container, but for `mode = "shadow"`, or for the policy of
    /// the plugin: then the message says so.
    WouldAdjust,
    /// A creation would have been refused, but for `mode = "shadow"` or the policy of a plugin.
    WouldRefuse,
    /// Lines were lost, because they could not be written as fast as they came.
    Lost,
    /// An event of a later release.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The change of one field.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FieldChange {
    /// Name of the field; for an entry of a list or map, the key of the entry follows in brackets.
    pub field: String,
    /// JSON pointer of the field in `config.json`. For an entry of a list, the pointer of the list
    /// and `/-`. Empty if `config.json` does not have the field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Value before the change; left out if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Value after the change; left out if the field was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

impl AuditEvent {
    /// All events that a log may have, without [`AuditEvent::Unknown`].
    pub const ALL: [Self; 16] = [
        Self::Consulted,
        Self::Adjustment,
        Self::Update,
        Self::Eviction,
        Self::Refusal,
        Self::Ignored,
        Self::Created,
        Self::Started,
        Self::Stopped,
        Self::Removed,
        Self::Failed,
        Self::PluginRegistered,
        Self::PluginClosed,
        Self::WouldAdjust,
        Self::WouldRefuse,
        Self::Lost,
    ];

    /// Returns the name of the event in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Consulted => "consulted",
            Self::Adjustment => "adjustment",
            Self::Update => "update",
            Self::Eviction => "eviction",
            Self::Refusal => "refusal",
            Self::Ignored => "ignored",
            Self::Created => "created",
            Self::Started => "started",
            Self::Stopped => "stopped",
            Self::Removed => "removed",
            Self::Failed => "failed",
            Self::PluginRegistered => "plugin_registered",
            Self::PluginClosed => "plugin_closed",
            Self::NridEnded => "nrid_ended",
            Self::WouldAdjust => "would_adjust",
            Self::WouldRefuse => "would_refuse",
            Self::Lost => "lost",
            Self::Unknown => "unknown",
        }
    }
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// Path of environment variables in `config.json`.
const VARIABLES: &str = "/process/env/-";

/// Path of hooks in `config.json`, whose environment may have secrets, too.
const HOOKS: &str = "/hooks/";

impl AuditLine {
    /// Masks the values of environment variables, also those of hooks.
    pub fn mask_environment(&mut self) {
        for FieldChange { path, before, after, .. } in &mut self.changes {
            for value in [before, after].into_iter().flatten() {
                if path == VARIABLES {
                    *value = MASKED.into();
                } else if path.starts_with(HOOKS) {
                    mask_hook(value);
                }
            }
        }
    }
}

/// Masks the values of the environment of a hook.
pub fn mask_hook(hook: &mut Value) {
    let variables = hook.get_mut("env").and_then(Value::as_array_mut);
    for variable in variables.into_iter().flatten() {
        let name = variable.as_str().and_then(|v| v.split_once('=')).map_or("", |(name, _)| name);
        *variable = format!("{name}={MASKED}").into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_only_fields_that_apply_and_a_reader_ignores_unknown_ones() {
        let line = AuditLine {
            time: "2026-01-02T03:04:05.000006Z".into(),
            event: AuditEvent::PluginClosed,
            plugin: "10-a".into(),
            ..AuditLine::default()
        };
        let text =
            r#"{"time":"2026-01-02T03:04:05.000006Z","event":"plugin_closed","plugin":"10-a"}"#;
        assert_eq!(serde_json::to_string(&line).unwrap(), text);
        assert_eq!(serde_json::from_str::<AuditLine>(text).unwrap(), line);
        let later = r#"{"time":"t","event":"frobbed","frob":{"x":1}}"#;
        let later: AuditLine = serde_json::from_str(later).unwrap();
        assert_eq!(later.event, AuditEvent::Unknown);
    }

    #[test]
    fn names_of_events_are_those_of_the_log() {
        for event in AuditEvent::ALL {
            assert_eq!(serde_json::to_value(event).unwrap(), event.name());
        }
    }
}
