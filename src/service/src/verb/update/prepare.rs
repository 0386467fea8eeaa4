//! The part of an `update` before the runtime's call: parses the engine's request, sends it to
//! plugins, and computes the resources that will be effective.

use super::{args, docker_zeros, numbers::Notation, whole};
use crate::{
    error::{CallerError, Error},
    host::process::ProcessIdentity,
    lifecycle::shadow::mode_of,
    plugins::{effects::Effects, update::check_required},
    resources::{
        idle::{IdleUpdate, end_idle, set_idle},
        owners,
        updatable::{check_updatable, for_runtime, without_call_flag},
        update::{ResourceRequest, ResourceUpdate},
    },
    service::Service,
    state::{
        container::{Container, UpdateLock},
        locked::LockedContainer,
        record::Record,
    },
};
use nri_adaptation::{AdaptError, UpdateOutcome};
use nri_api::proto::{self, LinuxResources, UpdateContainerRequest};
use nri_config::Mode;
use nri_control::{Begin, Substitute};
use nri_files::OsText;
use nri_merge::Ignored;
use nri_spec::{changed, resources_to_nri};
use serde_json::Value;
use std::sync::Arc;

/// An update in progress.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) resources: ResourceUpdate,
    /// Arguments and stdin for the runtime that replace those of the wrapper.
    pub(super) substitute: Substitute,
    /// Parts of plugins' replies that had no effect.
    pub(super) ignored: Vec<Ignored>,
    pub(super) lock: UpdateLock,
}

/// The engine's request, parsed.
struct Requested {
    /// Resources that the engine sends to the runtime.
    document: Value,
    /// Fields that this update changes.
    fields: Value,
    /// Arguments that set no resource, passed on to the runtime.
    other_arguments: Vec<OsText>,
}

impl Service {
    /// Prepares an update.
    ///
    /// # Errors
    /// The arguments or resources cannot be parsed, or a plugin refuses.
    pub(super) async fn prepare_update(
        &self,
        begin: &Begin,
        container: &LockedContainer,
        caller: Option<ProcessIdentity>,
    ) -> Result<Update, Error> {
        let record = container.record();
        let requested = parse_request(begin, &record)?;
        let fields = resources_to_nri(&requested.fields).map_err(CallerError::ResourceField)?;
        let is_ours = record.sandbox
            || self.engines.own_nri.is_ours(&self.settings().config.engines, &record.engine).await;
        let (outcome, lock) = match (record.sandbox, is_ours) {
            (true, _) => {
                (UpdateOutcome::default(), self.request_pod_update(container, fields).await?)
            }
            (false, true) => self.request_update(container, &requested, fields).await?,
            // The engine's own NRI was switched on after the creation. Resources that plugins have
            // set stay.
            (false, false) => (UpdateOutcome::default(), container.lock_update().await),
        };
        let owners = outcome.owners.owners.get(record.nri_id()).cloned().unwrap_or_default();
        let merged = outcome.touched.then_some(&outcome.resources);
        let request = ResourceRequest {
            by_engine: &requested.fields,
            merged: &without_rules_of(&requested.fields, merged),
            owners: &owners,
            caller,
            notify: is_ours,
            creation: None,
        };
        // Reads the record again: other updates of this container may have been made during the
        // request.
        let update = ResourceUpdate::plan(&self.resource_manager, &lock, request).await?;
        let idle = update.idle(&self.resource_manager);
        let substitute = if outcome.touched || container.record().has_plugin_resources() {
            let effective = &update.pending.effective.resources;
            requested.substitute(effective, idle, &record.key.id)
        } else {
            Substitute::default()
        };
        update.begin(&lock, &self.registry)?;
        end_idle(&lock.record(), idle);
        Ok(Update { resources: update, substitute, ignored: outcome.ignored, lock })
    }

    /// Sends the update of a container to plugins, and commits the outcome. In shadow mode the
    /// returned outcome is empty.
    async fn request_update(
        &self,
        container: &Arc<Container>,
        requested: &Requested,
        fields: proto::LinuxResources,
    ) -> Result<(UpdateOutcome, UpdateLock), Error> {
        let (pod, message) = self.registry.messages(container);
        let request = UpdateContainerRequest {
            pod: Some(pod).into(),
            container: Some(message).into(),
            linux_resources: Some(fields).into(),
            ..Default::default()
        };
        let owned = owners::replaced_by(&container.record().owners, &requested.fields);
        let context = self.request_context().with_owned(owned);
        let mode = mode_of(&context);
        let result = self
            .plugins
            .adaptation
            .update_container(request, &context, |outcome| {
                self.commit_update(container, &requested.fields, outcome, mode)
            })
            .await;
        self.log_refusals(context);
        result?
    }

    /// Sends the update of a pod to plugins, which can refuse the update but not change it.
    async fn request_pod_update(
        &self,
        sandbox: &Arc<Container>,
        fields: proto::LinuxResources,
    ) -> Result<UpdateLock, AdaptError> {
        let (pod, _) = self.registry.messages(sandbox);
        let request = proto::UpdatePodSandboxRequest {
            pod: Some(pod).into(),
            linux_resources: Some(fields).into(),
            ..Default::default()
        };
        let context = self.request_context();
        let commit = || sandbox.lock_update();
        let agreed = self.plugins.adaptation.update_pod_sandbox(request, &context, commit).await;
        self.log_refusals(context);
        agreed
    }

    /// Commits the replies: updates other containers, and takes the update lock of `container`.
    /// Commits run in the order of the requests.
    async fn commit_update(
        &self,
        container: &Arc<Container>,
        fields: &Value,
        outcome: UpdateOutcome,
        mode: Mode,
    ) -> Result<(UpdateOutcome, UpdateLock), Error> {
        let checked = self.check_update(container, fields, &outcome).await;
        let UpdateOutcome { merged_update, updates, evictions, owners, evictors, .. } = &outcome;
        match mode {
            Mode::Apply => {
                checked?;
                let requests = &self.plugins.requests;
                let effects = Effects::of_replies(updates, evictions, owners, evictors);
                check_required(requests.update_all(&effects, None).await)?;
                requests.evict_all(&effects);
                requests.report_conflicts(&outcome.failed);
                Ok((outcome, container.lock_update().await))
            }
            Mode::Shadow => {
                let updates: Vec<_> = merged_update.iter().chain(updates).cloned().collect();
                let effects = Effects::of_replies(&updates, evictions, owners, evictors);
                self.log_would_update(&container.record(), checked.map(|()| &effects)).await;
                Ok((UpdateOutcome::default(), container.lock_update().await))
            }
        }
    }

    /// Checks that the runtime and this host can set what plugins set in the container.
    async fn check_update(
        &self,
        container: &Container,
        by_engine: &Value,
        outcome: &UpdateOutcome,
    ) -> Result<(), Error> {
        let own = outcome.merged_update.as_ref().and_then(|update| update.linux.as_ref());
        let Some(own) = own.and_then(|linux| linux.resources.as_ref()) else { return Ok(()) };
        let owners = outcome.owners.owners.get(container.record().nri_id()).cloned();
        let (merged, owners) =
            (&without_rules_of(by_engine, Some(own)), &owners.unwrap_or_default());
        check_updatable(merged, owners)?;
        let (caller, notify, creation) = (None, false, None);
        let request = ResourceRequest { by_engine, merged, owners, caller, notify, creation };
        let update = ResourceUpdate::plan(&self.resource_manager, container, request).await?;
        Ok(update.check(&self.resource_manager, owners).await?)
    }
}

/// Parses the resources or the flags of an update.
fn parse_request(begin: &Begin, record: &Record) -> Result<Requested, CallerError> {
    let notation = Notation::of(&record.runtime.name());
    let arguments = args::parse(&begin.arguments, &record.key.id, notation)?;
    let document = match &begin.resources {
        Some(text) => {
            let mut document = serde_json::from_str(text).map_err(CallerError::Resources)?;
            if document == Value::Null {
                // Runtimes take null for an empty object.
                document = Value::Object(Default::default());
            }
            let fields = document.as_object_mut().ok_or(CallerError::ResourcesNotAnObject)?;
            if record.engine.is_docker() {
                docker_zeros::remove_zeros(fields);
            }
            document
        }
        None => arguments.flags,
    };
    let known = if whole::is_whole(&document, record) { &record.requested } else { &Value::Null };
    let fields = changed(known, &without_call_flag(&document));
    Ok(Requested { document, fields, other_arguments: arguments.others })
}

/// Returns the resources of a merge without device rules, if these are those of the engine: the
/// rules that plugins set at the creation follow them.
fn without_rules_of(by_engine: &Value, merged: Option<&LinuxResources>) -> LinuxResources {
    let mut merged = merged.cloned().unwrap_or_default();
    if resources_to_nri(by_engine).is_ok_and(|engine| engine.devices == merged.devices) {
        merged.devices.clear();
    }
    merged
}

impl Requested {
    /// Builds arguments and stdin that pass all effective resources to the runtime, with `cpu.idle`
    /// if the runtime gets that in place of an entry of `unified`.
    fn substitute(&self, effective: &Value, idle: Option<IdleUpdate>, id: &str) -> Substitute {
        let mut arguments = vec![OsText::from("--resources"), OsText::from("-")];
        arguments.extend(self.other_arguments.iter().cloned());
        arguments.push(OsText::from(id));
        let mut resources = for_runtime(effective, &self.document);
        set_idle(&mut resources, idle);
        let stdin = Some(resources.to_string());
        Substitute { arguments: Some(arguments), stdin, exec: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{resources::updatable::with_request, state::record::EXAMPLE};
    use serde_json::json;

    /// Returns a record of an engine with these resources.
    fn record(engine: &str, requested: Value, effective: Value) -> Record {
        let mut record: Record = serde_json::from_str(EXAMPLE).unwrap();
        record.engine.name = engine.to_owned();
        (record.requested, record.effective) = (requested.into(), effective.into());
        record
    }

    /// Returns the request of an update with this document.
    fn request(record: &Record, document: &Value) -> Requested {
        let begin = json!({
            "verb": "update", "id": "c1", "runtime": "/usr/bin/runc", "root": null, "globals": [],
            "arguments": ["--resources=-", "c1"], "bundle": null, "config": null, "cwd": "/",
            "environment": [], "resources": document.to_string(), "flag": false, "hook": null,
        });
        parse_request(&serde_json::from_value(begin).unwrap(), record).unwrap()
    }

    /// Returns what the runtime receives of an update that no plugin changes.
    fn sent(record: &Record, document: &Value) -> Value {
        let request = request(record, document);
        let effective = with_request(record, &request.fields);
        let stdin = request.substitute(&effective, None, "c1").stdin.unwrap();
        serde_json::from_str(&stdin).unwrap()
    }

    #[test]
    fn what_only_the_runtime_understands_reaches_it() {
        let requested = json!({"memory": {"limit": 9}, "devices": [{"allow": false}]});
        let plugin = json!({"allow": true, "type": "c", "major": 1, "minor": 3});
        let effective = json!({
            "memory": {"limit": 9}, "pids": {"limit": 7}, "devices": [{"allow": false}, plugin],
        });
        let record = record("", requested, effective);
        let document = json!({
            "memory": {"limit": 8}, "pids": null, "rdma": {"mlx5_1": {"hcaHandles": 3}},
            "blockIO": {"throttleReadBpsDevice": [{"major": 8, "minor": 0, "rate": 5}]},
            "hugepageLimits": [{"pageSize": "2MB", "limit": 4}], "newField": {"a": [1]},
        });
        let mut expected = document.clone();
        expected["pids"] = json!({"limit": 7});
        assert_eq!(sent(&record, &document), expected);
        // The rules of plugins follow those of the engine.
        let rule = json!({"allow": true, "type": "b"});
        let document = json!({"devices": [{"allow": false}, rule]});
        let expected = json!([{"allow": false}, rule, plugin]);
        assert_eq!(sent(&record, &document)["devices"], expected);
    }

    #[test]
    fn a_document_that_repeats_nothing_else_requests_what_it_has() {
        let record =
            record("docker", json!({"memory": {"limit": 9}}), json!({"memory": {"limit": 5}}));
        let document = json!({"memory": {"limit": 9}});
        assert_eq!(request(&record, &document).fields, document);
        // A document with device rules repeats all resources of the container.
        let whole = json!({"memory": {"limit": 9}, "pids": {"limit": 7}, "devices": []});
        assert_eq!(request(&record, &whole).fields, json!({"pids": {"limit": 7}, "devices": []}));
    }

    #[test]
    fn a_check_of_the_memory_in_use_is_of_one_call() {
        let record = record("", json!({"memory": {"limit": 9}}), json!({"memory": {"limit": 9}}));
        let document = json!({"memory": {"limit": 8, "checkBeforeUpdate": true}});
        assert_eq!(sent(&record, &document), document);
        let first = request(&record, &document);
        assert_eq!(first.fields, json!({"memory": {"limit": 8}}));
        let next = json!({"pids": {"limit": 7}});
        let effective = with_request(&record, &first.fields);
        let record = self::record("", first.fields, effective);
        assert_eq!(sent(&record, &next), json!({"memory": {"limit": 8}, "pids": {"limit": 7}}));
    }
}
