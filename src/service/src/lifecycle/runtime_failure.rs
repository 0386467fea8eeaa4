//! Failures of the runtime, and the fields of plugins that are in question.
//!
//! The runtime's message does not name the plugin that requested what the runtime could not do. If
//! the message shows the subject (a control file, a mount, a hook), only the plugins' fields of
//! that subject are named, otherwise all of them. Start from [`report`].
//!
//! The wrapper sends the last error in the file of `--log`, and adds the reply to that error: for a
//! creation, an update, and a start in which it does not become the runtime.

use crate::{service::Service, state::record::Record};
use nri_api::{
    Access, FieldRow, RESOURCE_FIELDS, ResourceField, field_row, fields, full_name,
    proto::{Field, FieldOwners},
};
use nri_control::{Exit, Finished, Reply};
use nri_values::printable;
use protobuf::Enum;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// Maximum number of fields in a message, since engines show it on one line.
const MAX_FIELDS: usize = 20;

/// Length in characters to which keys and values in a message are cut: plugins choose them.
const MAX_TEXT: usize = 128;

/// Parts of messages, in lower case, that are not about a subject: what runc calls the process that
/// it has just created, and an error of the kernel for whatever does not exist.
const NO_SUBJECTS: [&str; 2] = ["prochooks process", "no such device"];

/// Marks around a key in the runtime's messages.
const QUOTES: [char; 3] = ['"', '`', '\''];

/// The values that a failed verb gave to the runtime.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeInput<'a> {
    /// Owners of the fields.
    pub owners: &'a FieldOwners,
    /// `linux.resources`.
    pub resources: &'a Value,
    /// Whether only resources were requested, as by an `update`.
    pub only_resources: bool,
}

impl<'a> RuntimeInput<'a> {
    /// Returns the values with which the container is created and started.
    pub fn of(record: &'a Record) -> Self {
        Self { owners: &record.owners, resources: &record.effective, only_resources: false }
    }
}

/// Logs that the runtime failed, also in the audit log. Returns the text that the wrapper adds to
/// the runtime's error: the plugins and fields in question, if any. If the error does not show its
/// subject, the wrapper adds nothing: the engine's own values may be at fault.
pub fn report(
    service: &Service,
    record: &Record,
    verb: &str,
    finished: &Finished,
    requested: RuntimeInput<'_>,
) -> Option<String> {
    let (exit, exit_code) = match finished.exit {
        Exit::Code(code) => (format!("exit code {code}"), Some(code)),
        Exit::Signal(signal) => (format!("ended by signal {signal}"), None),
        Exit::NotStarted => ("it could not be started".to_owned(), None),
    };
    let error = finished.error.as_deref().map(printable).unwrap_or_default();
    let message = if error.is_empty() { exit } else { format!("{exit}: {error}") };
    // A runtime that did not start, or was killed, has not failed at a field.
    let found = exit_code.and_then(|_| attribution(record, requested, &error));
    log(service, record, verb, (message, exit_code), found.as_ref());
    found.filter(|found| found.is_certain).map(|found| found.text)
}

/// Returns the reply after a failure of the runtime, with the text that the wrapper adds to the
/// runtime's error. Wrappers of older releases ignore the text.
pub fn reply(text: Option<String>) -> Reply {
    text.map_or(Reply::Done, |message| Reply::Refused { message })
}

/// Logs that a runtime failed that no wrapper waited for; its message is not known.
pub fn log_unreported(service: &Service, record: &Record, verb: &str) {
    let found = attribution(record, RuntimeInput::of(record), "");
    let message = "reported to the engine only".to_owned();
    log(service, record, verb, (message, None), found.as_ref());
}

/// Logs a failure: its message, and the exit code of the runtime if it is known.
fn log(
    service: &Service,
    record: &Record,
    verb: &str,
    (mut message, exit_code): (String, Option<i32>),
    found: Option<&Attribution>,
) {
    if let Some(found) = found {
        message = format!("{message}; {}", found.text);
    }
    let (container, runtime) = (&record.key.id, record.runtime.path().display());
    let pod = &record.pod_id;
    tracing::warn!(container, pod, %runtime, "runtime failed to {verb}: {message}");
    service.audit_failure(record, verb, exit_code, message);
}

/// A field or entry that a plugin set or removed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SetField {
    plugin: String,
    field: i32,
    key: Option<String>,
    is_removed: bool,
}

/// The plugins and fields that may have caused an error of the runtime.
#[derive(Debug, PartialEq, Eq)]
struct Attribution {
    text: String,
    /// Whether the error shows its subject. Otherwise all fields are named.
    is_certain: bool,
}

/// Describes the plugins and fields that may have caused the runtime's `error`; an empty error
/// stands for an unknown one. `None` if no plugin has set such a field.
fn attribution(record: &Record, requested: RuntimeInput<'_>, error: &str) -> Option<Attribution> {
    let mut fields = fields_set(requested.owners);
    fields.retain(|set| !requested.only_resources || is_resource(set.field));
    if fields.is_empty() {
        return None;
    }
    let container = record.container.get();
    let sources: HashMap<&str, &str> =
        container.mounts.iter().map(|m| (m.destination.as_str(), m.source.as_str())).collect();
    let error =
        NO_SUBJECTS.iter().fold(error.to_lowercase(), |error, part| error.replace(part, ""));
    let in_question = |set: &SetField| set.is_in_question(&error, &sources);
    let is_certain = names_a_subject(&error) || fields.iter().any(in_question);
    if is_certain {
        fields.retain(in_question);
    }
    let more = fields.len().saturating_sub(MAX_FIELDS);
    let mut by_plugin: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for set in fields.iter().take(MAX_FIELDS) {
        by_plugin.entry(&set.plugin).or_default().push(set.describe(requested.resources));
    }
    if by_plugin.is_empty() {
        return None;
    }
    let plugins = by_plugin.iter().map(|(plugin, names)| format!("{plugin}: {}", names.join(", ")));
    let mut text = format!("set by plugins: {}", plugins.collect::<Vec<_>>().join("; "));
    if more > 0 {
        text += &format!("; and {more} more fields");
    }
    Some(Attribution { text: printable(&text).into_owned(), is_certain })
}

fn fields_set(owners: &FieldOwners) -> Vec<SetField> {
    let mut fields = Vec::new();
    // Several contributors are joined by commas; a leading dash marks a plugin that removed the
    // value of another plugin.
    let mut add = |field: i32, key: Option<&String>, owner: &str| {
        for plugin in owner.split(',') {
            fields.push(SetField {
                plugin: plugin.trim_start_matches('-').to_owned(),
                field,
                key: key.cloned(),
                is_removed: plugin.starts_with('-'),
            });
        }
    };
    for (field, owner) in &owners.simple {
        add(*field, None, owner);
    }
    for (field, entries) in &owners.compound {
        for (key, owner) in &entries.owners {
            add(*field, Some(key), owner);
        }
    }
    fields.sort();
    fields.dedup();
    fields
}

fn is_resource(field: i32) -> bool {
    Field::from_i32(field).is_some_and(nri_api::is_resource)
}

/// Whether an error, in lower case, shows what it is about.
fn names_a_subject(error: &str) -> bool {
    fields().any(|row| has_word(row, error))
        || missing_controller(error).is_some()
        || RESOURCE_FIELDS.iter().any(|row| has_file(row, "", error))
}

fn has_word(row: FieldRow, error: &str) -> bool {
    row.words.iter().any(|word| error.contains(word))
}

/// Whether an error names a control file of a resource field, or of its entry with this key, or the
/// controller of the file.
fn has_file(row: &ResourceField, key: &str, error: &str) -> bool {
    let controller = missing_controller(error);
    let mut files = row.v1.iter().chain(row.v2).map(|file| file.replace("{}", key).to_lowercase());
    let is_of = |file: &str, controller: &str| file.split('.').next() == Some(controller);
    files.any(|file| {
        let has_file = !file.is_empty() && error.contains(&file);
        has_file || controller.is_some_and(|controller| is_of(&file, controller))
    })
}

/// Returns the controller in crun's error about a controller that the cgroup does not have.
fn missing_controller(error: &str) -> Option<&str> {
    let (_, rest) = error.split_once("controller `")?;
    rest.split_once('`').map(|(controller, _)| controller)
}

impl SetField {
    /// Whether an error, in lower case, may be about this field.
    fn is_in_question(&self, error: &str, sources: &HashMap<&str, &str>) -> bool {
        let Some(field) = Field::from_i32(self.field) else { return false };
        let key = self.key.as_deref().unwrap_or_default();
        let names = |text: &str| text.len() > 1 && error.contains(&text.to_lowercase());
        let names_key = field_row(field).is_some_and(|row| row.errors_name_key);
        if names_key
            && (names(key)
                || sources.get(key).is_some_and(|source| names(source))
                || names(&key.replace('.', "/")))
        {
            return true;
        }
        let mut rows = RESOURCE_FIELDS.iter().filter(|row| row.owner == Some(field));
        if rows.any(|row| has_file(row, key, error)) {
            return true;
        }
        let mut rows = fields().filter(|row| row.owner == Some(field));
        let is_subject = rows.any(|row| has_word(row, error));
        match field {
            Field::Env => (is_subject && key == "PATH") || names(&format!("${key}")),
            Field::CdiDevices => is_subject,
            // Below, the error names no entry, neither this one nor one of the engine.
            Field::Mounts => is_subject && !error.contains('/'),
            Field::Devices => is_subject && !error.contains("/dev/"),
            _ if names_key => is_subject && !error.contains(QUOTES),
            _ => is_subject,
        }
    }

    /// Returns the name of the field, with its value if that is a resource.
    fn describe(&self, resources: &Value) -> String {
        let Some(field) = Field::from_i32(self.field) else { return self.field.to_string() };
        let name = full_name(field, self.key.as_deref().map(cut).as_deref());
        if self.is_removed {
            return format!("{name} (removed)");
        }
        match value_of(field, self.key.as_deref(), resources) {
            Some(value) => format!("{name}={}", cut(&value.to_string())),
            None => name,
        }
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the value of a resource field; `None` for classes, whose names the OCI config lacks.
fn value_of<'a>(field: Field, key: Option<&str>, resources: &'a Value) -> Option<&'a Value> {
    let row = RESOURCE_FIELDS.iter().find(|row| row.owner == Some(field))?;
    let value = row.path.iter().try_fold(resources, |value, key| value.get(key))?;
    match (&row.access, key) {
        (Access::Entries(_), Some(key)) => match value.as_array() {
            Some(limits) => limits
                .iter()
                .find(|limit| limit.get("pageSize").and_then(Value::as_str) == Some(key))?
                .get("limit"),
            None => value.get(key),
        },
        _ => Some(value).filter(|value| !value.is_object()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::record::EXAMPLE;
    use nri_api::proto::Mount;
    use serde_json::json;

    fn owners() -> FieldOwners {
        let mut owners = FieldOwners::default();
        for (field, owner) in [
            (Field::CPUSetCPUs, "10-a"),
            (Field::CPUQuota, "10-a"),
            (Field::OciHooks, "10-a,20-b"),
            (Field::BlockioClass, "20-b"),
        ] {
            owners.simple.insert(field.value(), owner.to_owned());
        }
        for (field, key, owner) in [
            (Field::Mounts, "/data", "20-b"),
            (Field::Devices, "/dev/d", "20-b"),
            (Field::Sysctl, "net.x", "10-a"),
            (Field::Env, "PATH", "-20-b"),
            (Field::Env, "SECRET", "10-a"),
            (Field::CgroupsUnified, "memory.high", "10-a"),
        ] {
            let entries = owners.compound.entry(field.value()).or_default();
            entries.owners.insert(key.to_owned(), owner.to_owned());
        }
        owners
    }

    /// Checks the text for an error, and that it is certain or not.
    fn check(
        owners: &FieldOwners,
        only_resources: bool,
        error: &str,
        expected: Option<(&str, bool)>,
    ) {
        let mut record: Record = serde_json::from_str(EXAMPLE).unwrap();
        record.container.change(|container| {
            container.mounts = vec![Mount {
                destination: "/data".into(),
                source: "/Nowhere".into(),
                ..Default::default()
            }];
        });
        let resources = json!({
            "cpu": {"cpus": "99", "quota": 1000}, "unified": {"memory.high": "1"}, "blockIO": {}
        });
        let requested = RuntimeInput { owners, resources: &resources, only_resources };
        let expected =
            expected.map(|(text, is_certain)| Attribution { text: text.to_owned(), is_certain });
        assert_eq!(attribution(&record, requested, error), expected, "{error}");
    }

    #[test]
    fn an_error_that_shows_its_subject_names_the_fields_of_that_subject() {
        for (error, expected) in [
            (
                "failed to write \"99\": write /sys/fs/cgroup/cpuset/c1/cpuset.cpus: invalid",
                Some("10-a: cpu.cpus=\"99\""),
            ),
            (
                "error setting cgroup config for procHooks process: cannot set cpuset limit",
                Some("10-a: cpu.cpus=\"99\""),
            ),
            ("write io.max: no such device", Some("20-b: blockio_class")),
            ("open memory.high: no such file", Some("10-a: unified[memory.high]=\"1\"")),
            (
                "controller `memory` is not available under /sys/fs/cgroup/x/cgroup.controllers",
                Some("10-a: unified[memory.high]=\"1\""),
            ),
            ("controller `pids` is not available under /sys/fs/cgroup/x", None),
            ("error mounting \"/nowhere\" to rootfs at \"/data\"", Some("20-b: mounts[/data]")),
            ("cannot stat `/Nowhere`: No such file", Some("20-b: mounts[/data]")),
            ("error running hook #0: exit status 3", Some("10-a: hooks; 20-b: hooks")),
            ("exec: \"x\": executable file not found", Some("20-b: env[PATH] (removed)")),
            ("invalid mount options", Some("20-b: mounts[/data]")),
            ("in /bundle/config.json: invalid device type \"z\"", Some("20-b: devices[/dev/d]")),
            ("mknod `/dev/d`: invalid argument", Some("20-b: devices[/dev/d]")),
            ("sysctls need a network namespace", Some("10-a: sysctl[net.x]")),
            // What the engine requested, and no plugin.
            ("error mounting \"/other\" to rootfs at \"/etc\"", None),
            ("write pids.max: invalid argument", None),
            ("mknod `/dev/other`: invalid argument", None),
            ("the sysctl `net.y` is not namespaced", None),
            ("seccomp: unknown action", None),
        ] {
            let expected = expected.map(|text| format!("set by plugins: {text}"));
            check(&owners(), false, error, expected.as_deref().map(|text| (text, true)));
        }
    }

    #[test]
    fn an_error_without_a_subject_names_all_fields_but_no_values_of_variables() {
        let resources = "cpu.quota=1000, cpu.cpus=\"99\", unified[memory.high]=\"1\"";
        let all = format!(
            "set by plugins: 10-a: hooks, env[SECRET], {resources}, sysctl[net.x]; 20-b: \
             mounts[/data], hooks, devices[/dev/d], env[PATH] (removed), blockio_class"
        );
        check(&owners(), false, "it did not work", Some((&all, false)));
        check(&owners(), false, "", Some((&all, false)));
        let updated = format!("set by plugins: 10-a: {resources}; 20-b: blockio_class");
        check(&owners(), true, "it did not work", Some((&updated, false)));
        check(&FieldOwners::default(), false, "it did not work", None);
    }

    #[test]
    fn the_text_is_limited() {
        let mut owners = FieldOwners::default();
        let mounts = owners.compound.entry(Field::Mounts.value()).or_default();
        for n in 10..60 {
            mounts.owners.insert(format!("/{n}{}", "x".repeat(1000)), "10-a".to_owned());
        }
        let record: Record = serde_json::from_str(EXAMPLE).unwrap();
        let requested =
            RuntimeInput { owners: &owners, resources: &Value::Null, only_resources: false };
        let text = attribution(&record, requested, "").unwrap().text;
        assert!(text.len() < 4000 && text.ends_with("; and 30 more fields"), "{text}");
    }
}
