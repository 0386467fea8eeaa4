//! What the record of a container tells of its creation and life, in the form of lines of the audit
//! log, for `nrictl explain`: the log may have been removed, rotated, or switched off.

use crate::{
    bundle::config_json::{Bundle, digest},
    host::file_access::{self, FileSystem},
    resources::{changes::resource_changes, owners},
    service::Service,
    state::{record::Record, status::ContainerStatus},
    verb::creation::changes::recorded_changes,
};
use nri_files::{AuditEvent, AuditLine, FieldChange};
use nri_spec::idle_field_to_entry;
use rustix::fs::OFlags;
use serde_json::Value;
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

/// Time limit of reading a `config.json`: its file system may hang.
const TIMEOUT: Duration = Duration::from_secs(2);

impl Service {
    /// Returns the lines about a container, with masked values.
    pub(super) async fn recorded(&self, record: Arc<Record>) -> Vec<AuditLine> {
        let line = self.audit_line(&record, AuditEvent::Unknown);
        let line = AuditLine { from_record: true, ..line };
        let configs = configs(record.clone()).await;
        let mut lines = lines(&record, configs.as_ref(), &line);
        lines.iter_mut().for_each(|line| self.audit.mask(line));
        lines
    }
}

/// The `config.json` of a container as the engine wrote it, and as it is.
struct Configs {
    before: Value,
    after: Value,
}

/// Reads the `config.json` of a container; `None` if it is not the one that the container was
/// created with, or cannot be read.
async fn configs(record: Arc<Record>) -> Option<Configs> {
    let device = record.bundle.identity.0;
    let read = move || {
        let bundle = &record.bundle;
        let dir = record.runtime.open(&bundle.dir, OFlags::DIRECTORY).ok()?;
        let opened = Bundle::new(dir, &bundle.dir, Some(Path::new(&bundle.name))).ok()?;
        if opened.identity() != bundle.identity {
            return None;
        }
        let before = opened.read().ok()?;
        if bundle.own.as_ref().is_some_and(|own| digest(&before) != own.made_from) {
            return None;
        }
        let adjusted = bundle.own.as_ref().and_then(|own| own.config.as_deref());
        let before: Value = serde_json::from_slice(&before).ok()?;
        let after = adjusted.map_or(Ok(before.clone()), serde_json::from_str).ok()?;
        Some(Configs { after: as_adjusted(after, &before), before })
    };
    file_access::run(FileSystem::Device(device), TIMEOUT, read).await.ok().flatten()
}

/// Returns a `config.json` as plugins have adjusted it: the runtime has got a field in place of
/// their `unified["cpu.idle"]` in cgroup v1, and no weight beside it in cgroup v2.
fn as_adjusted(mut config: Value, before: &Value) -> Value {
    let resources = |config: &Value| config.pointer("/linux/resources").cloned();
    let old = resources(before).unwrap_or_default();
    if let Some(resources) = config.pointer_mut("/linux/resources") {
        idle_field_to_entry(resources, &old);
    }
    config
}

/// Returns the lines. `line` names the container.
fn lines(record: &Record, configs: Option<&Configs>, line: &AuditLine) -> Vec<AuditLine> {
    let message = record.container.get();
    let at = |event, time| AuditLine { event, time: shown(time), ..line.clone() };
    let of_creation = |event| {
        let request = if record.by_run { "run" } else { "create" };
        AuditLine { request: request.to_owned(), ..at(event, message.created_at) }
    };
    let mut lines = Vec::new();
    if !record.missed.is_empty() {
        let missed = record.missed.clone();
        lines.push(AuditLine { missed, ..of_creation(AuditEvent::Consulted) });
    }
    let none = Value::Null;
    let name = record.key.hook_name(record.incarnation);
    let (adjustments, updates) = match configs {
        Some(Configs { before, after }) => {
            let created = after.pointer("/linux/resources").unwrap_or(&none);
            (
                recorded_changes(before, after, &record.owners, &name),
                resource_changes(created, &record.effective, &record.owners),
            )
        }
        // The values are not known, but those of resources.
        None => {
            let (old, new) = (&record.requested, &record.effective);
            let mut changes = resource_changes(old, new, &record.owners);
            let fields = changes.values().flatten().map(|change| change.field.clone());
            let known: Vec<_> = fields.collect();
            let owned = owners::by_field(&record.owners).into_iter();
            for (field, plugins) in owned.filter(|(field, _)| !known.contains(field)) {
                let change = FieldChange { field, ..FieldChange::default() };
                changes.entry(plugins.join(",")).or_default().push(change);
            }
            (changes, Default::default())
        }
    };
    for (plugin, changes) in adjustments {
        lines.push(AuditLine { plugin, changes, ..of_creation(AuditEvent::Adjustment) });
    }
    if record.status >= ContainerStatus::Created {
        lines.push(AuditLine { request: String::new(), ..of_creation(AuditEvent::Created) });
    }
    if message.started_at > 0 {
        lines.push(at(AuditEvent::Started, message.started_at));
    }
    if record.status == ContainerStatus::Stopped {
        let (exit_code, message_of_end) = (Some(message.exit_code), message.status_reason);
        let stopped = at(AuditEvent::Stopped, message.finished_at);
        lines.push(AuditLine { exit_code, message: message_of_end, ..stopped });
    }
    for (plugin, changes) in updates {
        let request = "update".to_owned();
        lines.push(AuditLine { plugin, request, changes, ..at(AuditEvent::Update, 0) });
    }
    lines
}

/// Formats a time in nanoseconds since the epoch as the audit log does; empty if it is not known.
fn shown(nanoseconds: i64) -> String {
    let since = u64::try_from(nanoseconds).ok().filter(|time| *time > 0);
    let time = since.and_then(|since| UNIX_EPOCH.checked_add(Duration::from_nanos(since)));
    time.map_or_else(String::new, |time| humantime::format_rfc3339_micros(time).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::record::EXAMPLE;
    use serde_json::json;

    fn described(record: &Record, configs: Option<&Configs>) -> Vec<String> {
        let value = |v: &Option<Value>| v.as_ref().map_or("-".to_owned(), Value::to_string);
        let change =
            |c: &FieldChange| format!(" {}:{}>{}", c.field, value(&c.before), value(&c.after));
        let text = |line: AuditLine| {
            let changes = line.changes.iter().map(change).collect::<String>();
            format!("{} {} {}{changes}", line.time, line.event.name(), line.plugin)
        };
        lines(record, configs, &AuditLine::default()).into_iter().map(text).collect()
    }

    #[test]
    fn what_the_runtime_got_for_an_idle_container_is_what_plugins_set() {
        let config = |resources: Value| json!({"linux": {"resources": resources}});
        let before = config(json!({"cpu": {"shares": 5}}));
        let got = config(json!({"cpu": {"shares": 5, "idle": 1}}));
        let adjusted = config(json!({"cpu": {"shares": 5}, "unified": {"cpu.idle": "1"}}));
        assert_eq!(as_adjusted(got, &before), adjusted);
        let got = config(json!({"unified": {"cpu.idle": "1"}}));
        assert_eq!(as_adjusted(got, &before)["linux"], adjusted["linux"]);
        assert_eq!(as_adjusted(json!({}), &before), json!({}));
    }

    #[test]
    fn a_record_has_the_creation_the_life_and_the_resources_of_later_updates() {
        let mut record: Record = serde_json::from_str(EXAMPLE).unwrap();
        record.container.change(|container| {
            (container.created_at, container.started_at) = (1_000_000_000, 2_000_000_000);
        });
        let resources = |limit: u64| json!({"linux": {"resources": {"memory": {"limit": limit}}}});
        let configs = Configs { before: resources(7), after: resources(4) };
        let life = ["1970-01-01T00:00:01.000000Z created ", "1970-01-01T00:00:02.000000Z started "];
        assert_eq!(
            described(&record, Some(&configs)),
            [
                "1970-01-01T00:00:01.000000Z adjustment 10-a memory.limit:7>4",
                life[0],
                life[1],
                " update 10-a memory.limit:4>2",
            ]
        );
        // Another container may have replaced the config.json.
        record.effective = record.requested.clone();
        assert_eq!(
            described(&record, None),
            ["1970-01-01T00:00:01.000000Z adjustment 10-a memory.limit:->-", life[0], life[1]]
        );
        record.set_stopped(Some(9), true);
        let last = lines(&record, None, &AuditLine::default()).pop().unwrap();
        assert_eq!((last.event, last.exit_code), (AuditEvent::Stopped, Some(137)));
        assert_eq!(last.message, "OOMKilled");
    }
}
