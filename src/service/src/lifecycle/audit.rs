//! Lines of the audit log about refusals and about the life of containers.

use crate::{
    audit::line_of,
    error::{Error, OperatorError, PluginError, ResourceError},
    service::Service,
    state::{record::Record, registry::Registry},
};
use nri_adaptation::AdaptError;
use nri_api::full_name;
use nri_files::{AuditEvent, AuditLine, FieldChange};
use nri_merge::{Ignored, MergeError};
use std::collections::BTreeMap;

/// Returns the line about a container that has stopped.
pub fn stop_line(record: &Record, registry: &Registry) -> AuditLine {
    let container = record.container.get();
    let line = line_of(record, &registry.pods, AuditEvent::Stopped);
    AuditLine { exit_code: Some(container.exit_code), message: container.status_reason, ..line }
}

impl Service {
    /// Returns a line about a container.
    pub fn audit_line(&self, record: &Record, event: AuditEvent) -> AuditLine {
        line_of(record, &self.registry.pods, event)
    }

    /// Writes that something happened to a container.
    pub fn audit_event(&self, record: &Record, event: AuditEvent) {
        if self.audit.is_enabled() {
            self.audit.write(self.audit_line(record, event));
        }
    }

    /// Writes that a container has stopped.
    pub fn audit_stop(&self, record: &Record) {
        if self.audit.is_enabled() {
            self.audit.write(stop_line(record, &self.registry));
        }
    }

    /// Writes a line for each plugin of whose reply parts had no effect.
    pub fn audit_ignored(&self, line: &AuditLine, request: &str, all: &[Ignored]) {
        let mut by_plugin = BTreeMap::<String, Vec<String>>::new();
        for Ignored { plugin, what, .. } in all {
            by_plugin.entry(plugin.to_string()).or_default().push(what.clone());
        }
        for (plugin, ignored) in by_plugin {
            let (event, request) = (AuditEvent::Ignored, request.to_owned());
            self.audit.write(AuditLine { event, plugin, request, ignored, ..line.clone() });
        }
    }

    /// Writes that a runtime failed.
    pub fn audit_failure(
        &self,
        record: &Record,
        request: &str,
        exit_code: Option<i32>,
        message: String,
    ) {
        if self.audit.is_enabled() {
            let (line, request) = (self.audit_line(record, AuditEvent::Failed), request.to_owned());
            self.audit.write(AuditLine { request, exit_code, message, ..line });
        }
    }

    /// Writes that a request was refused, with the plugins and fields that the error names. `line`
    /// names the container and the event.
    pub fn audit_refusal(&self, line: AuditLine, request: &str, error: &Error) {
        if !self.audit.is_enabled() {
            return;
        }
        let RefusalCause { plugins, fields } = RefusalCause::of(error);
        let changes = fields.into_iter().map(|field| FieldChange { field, ..Default::default() });
        self.audit.write(AuditLine {
            plugin: plugins.join(","),
            request: request.to_owned(),
            changes: changes.collect(),
            message: error.line(&line.container),
            ..line
        });
    }
}

/// The plugins and fields that an error names.
#[derive(Debug, Default, PartialEq)]
struct RefusalCause {
    plugins: Vec<String>,
    fields: Vec<String>,
}

impl RefusalCause {
    fn of(error: &Error) -> Self {
        match error {
            Error::Plugin(PluginError::Event(error))
            | Error::Operator(
                OperatorError::Event(error) | OperatorError::RequiredMissing(error),
            ) => Self::of_event(error),
            Error::Plugin(
                PluginError::Unsupported(all)
                | PluginError::Resources(ResourceError::Unsupported(all)),
            ) => {
                let mut plugins: Vec<_> = all.0.iter().flat_map(|u| u.plugins.clone()).collect();
                plugins.sort();
                plugins.dedup();
                Self { plugins, fields: all.0.iter().map(|u| u.field.clone()).collect() }
            }
            Error::Plugin(PluginError::Adjustment(error)) => {
                Self { plugins: error.plugins.iter().cloned().collect(), fields: Vec::new() }
            }
            Error::Plugin(PluginError::ReservedAnnotation { key, plugins }) => Self {
                plugins: plugins.iter().cloned().collect(),
                fields: vec![format!("annotations[{key}]")],
            },
            Error::Operator(OperatorError::Class(error))
            | Error::Plugin(PluginError::Resources(ResourceError::Class(error))) => {
                let (plugin, field) = error.cause();
                let plugins = plugin.into_iter().flat_map(|all| all.split(','));
                let plugins = plugins.map(|plugin| plugin.trim_start_matches('-').to_owned());
                Self { plugins: plugins.collect(), fields: vec![field.to_owned()] }
            }
            _ => Self::default(),
        }
    }

    fn of_event(error: &AdaptError) -> Self {
        if let AdaptError::Rejected { validator, .. } = error {
            return Self { plugins: vec![validator.clone()], fields: Vec::new() };
        }
        if let AdaptError::RequiredMissing { plugin, .. } = error {
            return Self { plugins: vec![plugin.clone()], fields: Vec::new() };
        }
        let mut cause = Self::default();
        cause.plugins.extend(error.plugin().map(ToString::to_string));
        if let AdaptError::RequiredOwner { field, .. } = error {
            cause.fields.push(field.clone());
        }
        if let AdaptError::Merge {
            source: MergeError::Conflict { owner, field, key, .. }, ..
        } = error
        {
            cause.plugins.push(owner.to_string());
            cause.fields.push(full_name(*field, key.as_deref()));
        }
        cause
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::classes::{Resolved, Sources};
    use nri_api::{
        PluginId, opt,
        proto::{Event, Field, FieldOwners, LinuxResources},
    };
    use protobuf::Enum;
    use std::path::Path;

    #[test]
    fn a_conflict_names_both_plugins_and_the_field() {
        let plugin = |index, name| PluginId::new(index, name).unwrap();
        let source = MergeError::Conflict {
            plugin: plugin("20", "b"),
            owner: plugin("10", "a"),
            field: Field::MemLimit,
            key: None,
            container: "c".into(),
        };
        let subject = "c".to_owned();
        let error = AdaptError::Merge { event: Event::CREATE_CONTAINER, subject, source };
        let cause = RefusalCause::of(&error.into());
        assert_eq!(cause.plugins, ["20-b", "10-a"]);
        assert_eq!(cause.fields, ["memory.limit"]);
    }

    #[test]
    fn an_unknown_class_names_the_plugin_and_the_field() {
        let blockio_class = opt(Some("gold".to_owned()));
        let resources = LinuxResources { blockio_class, ..Default::default() };
        let sources = Sources { blockio: None, rdt: None, resctrl: Path::new("/nonexistent") };
        let mut owners = FieldOwners::default();
        owners.simple.insert(Field::BlockioClass.value(), "10-a".into());
        let error = Resolved::of(&resources, &sources).unwrap_err().with_owner(&owners);
        let cause = RefusalCause::of(&OperatorError::from(error).into());
        assert_eq!(
            (cause.plugins, cause.fields),
            (vec!["10-a".into()], vec!["blockio_class".into()])
        );
    }

    #[test]
    fn a_rejection_names_the_validator_and_a_missing_plugin_itself() {
        let error = AdaptError::Rejected {
            validator: "30-v".into(),
            container: "c".into(),
            reason: "no".into(),
        };
        assert_eq!(RefusalCause::of(&error.into()).plugins, ["30-v"]);
        let missing =
            AdaptError::RequiredMissing { plugin: "40-r".into(), why: None, container: "c".into() };
        assert_eq!(RefusalCause::of(&missing.into()).plugins, ["40-r"]);
        let owner = AdaptError::RequiredOwner {
            plugin: PluginId::new("40", "r").unwrap(),
            why: None,
            field: "cpu.cpus".into(),
            container: "c".into(),
        };
        let cause = RefusalCause::of(&owner.into());
        assert_eq!((cause.plugins, cause.fields), (vec!["40-r".into()], vec!["cpu.cpus".into()]));
    }
}
