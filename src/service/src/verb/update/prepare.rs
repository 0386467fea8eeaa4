//! The part of an `update` before the runtime's call: parses the engine's request, sends it to
//! plugins, and computes the resources that will be effective.

use super::{args, docker_zeros, numbers::Notation, whole};
use crate::{
    error::{CallerError, Error},
    host::process::ProcessIdentity,
    lifecycle::shadow::log_refusals,
    resources::{
        apply::{UpdateSource, check_required},
        changes::all_owners,
        description::described,
        eviction::EvictionSource,
        owners,
        updatable::{adapt_swap, check_updatable, for_runtime, with_request, without_call_flags},
    },
    service::Service,
    state::{
        container::Container,
        record::{EffectiveResources, PendingUpdate, Record},
    },
};
use nri_adaptation::{AdaptError, UpdateOutcome};
use nri_api::proto::{self, UpdateContainerRequest};
use nri_control::{Begin, OsText, Substitute};
use nri_merge::Ignored;
use nri_spec::{changed, overlay, resources_to_nri};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;

/// Guard of a container's update lock.
type UpdateGuard = OwnedMutexGuard<()>;

/// An update in progress.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) container: Arc<Container>,
    /// The record's fields after the update.
    pub(super) pending: PendingUpdate,
    /// Arguments and stdin for the runtime that replace those of the wrapper.
    pub(super) substitute: Substitute,
    /// The effective resources with the engine's request, before the changes of plugins.
    pub(super) base: Value,
    /// Parts of plugins' replies that had no effect.
    pub(super) ignored: Vec<Ignored>,
    _guard: UpdateGuard,
}

/// What is known of an update besides its outcome.
#[derive(Default)]
struct PreparedUpdate {
    substitute: Substitute,
    base: Value,
    ignored: Vec<Ignored>,
}

/// The engine's request, parsed.
struct Requested {
    /// Resources that the engine sends to the runtime.
    document: Value,
    /// Fields that this update changes.
    fields: Value,
    /// All fields that the engine has requested since the creation.
    all: Value,
    /// Arguments that set no resource, passed on to the runtime.
    other_arguments: Vec<OsText>,
}

impl Service {
    /// Prepares an update. The caller holds the container lock.
    ///
    /// # Errors
    /// The arguments or resources cannot be parsed, or a plugin refuses.
    pub(super) async fn prepare_update(
        &self,
        begin: &Begin,
        container: Arc<Container>,
        caller: Option<ProcessIdentity>,
    ) -> Result<Update, Error> {
        let record = container.record();
        let requested = parse_request(begin, &record)?;
        let fields = resources_to_nri(&requested.fields).map_err(CallerError::ResourceField)?;
        if record.sandbox {
            let guard = self.request_pod_update(&container, fields).await?;
            let base = with_request(&record, &requested.fields);
            let effective = EffectiveResources::of(base.clone());
            let pending = PendingUpdate {
                requested: requested.all,
                effective,
                owners: record.owners.clone(),
                caller,
                notify: true,
            };
            let prepared = PreparedUpdate { base, ..PreparedUpdate::default() };
            return self.start_update(container, pending, guard, prepared);
        }
        if !self.engine_nri.is_ours(&self.settings().config.engines, &record.engine).await {
            return self.prepare_without_plugins(container, requested, caller).await;
        }
        let (outcome, guard) = self.request_update(&container, &requested, fields).await?;
        // Read again: other updates of this container may have been made during the request.
        let record = container.record();
        let base = with_request(&record, &requested.fields);
        let new_owners = outcome.owners.owners.get(record.nri_id()).cloned().unwrap_or_default();
        let mut effective = match outcome.touched {
            true => {
                let resources = &outcome.resources;
                self.resource_manager.overlay(&base, resources, &new_owners).await?
            }
            false => EffectiveResources::of(base.clone()),
        };
        let swap_given = requested.sets_swap() || outcome.resources.memory.swap.is_some();
        let swap_follows = adapt_swap(&record.effective, swap_given, &mut effective.resources);
        let mut owners = record.owners.clone();
        // The engine owns the fields that it requested, unless a plugin replied with them.
        owners::assign(&mut owners, &requested.fields, None);
        owners::merge(&mut owners, &new_owners);
        if swap_follows {
            owners::follow_memory_limit(&mut owners);
        }
        let substitute = match outcome.touched || record.has_plugin_resources() {
            true => requested.substitute(&effective.resources, &record.key.id),
            false => Substitute::default(),
        };
        let pending =
            PendingUpdate { requested: requested.all, effective, owners, caller, notify: true };
        let prepared = PreparedUpdate { substitute, base, ignored: outcome.ignored };
        self.start_update(container, pending, guard, prepared)
    }

    /// Prepares an update without a request to plugins, because the engine's own NRI was switched
    /// on after the creation. Resources that plugins have set stay.
    async fn prepare_without_plugins(
        &self,
        container: Arc<Container>,
        requested: Requested,
        caller: Option<ProcessIdentity>,
    ) -> Result<Update, Error> {
        let guard = container.update_lock.clone().lock_owned().await;
        let record = container.record();
        let mut effective = with_request(&record, &requested.fields);
        let base = effective.clone();
        let swap_follows = adapt_swap(&record.effective, requested.sets_swap(), &mut effective);
        let substitute = match record.has_plugin_resources() {
            true => requested.substitute(&effective, &record.key.id),
            false => Substitute::default(),
        };
        let mut owners = record.owners.clone();
        owners::assign(&mut owners, &requested.fields, None);
        if swap_follows {
            owners::follow_memory_limit(&mut owners);
        }
        let pending = PendingUpdate {
            requested: requested.all,
            effective: EffectiveResources::of(effective),
            owners,
            caller,
            notify: false,
        };
        let prepared = PreparedUpdate { substitute, base, ..PreparedUpdate::default() };
        self.start_update(container, pending, guard, prepared)
    }

    /// Saves the pending update before the runtime is called, so that the next `nrid` can resolve
    /// it.
    fn start_update(
        &self,
        container: Arc<Container>,
        pending: PendingUpdate,
        guard: UpdateGuard,
        prepared: PreparedUpdate,
    ) -> Result<Update, Error> {
        self.registry.try_change(&container, |r| r.pending_update = Some(pending.clone()))?;
        let PreparedUpdate { substitute, base, ignored } = prepared;
        Ok(Update { container, pending, substitute, base, ignored, _guard: guard })
    }

    /// Sends the update of a container to plugins. In shadow mode, logs the outcome and returns an
    /// empty outcome.
    async fn request_update(
        &self,
        container: &Container,
        requested: &Requested,
        fields: proto::LinuxResources,
    ) -> Result<(UpdateOutcome, UpdateGuard), Error> {
        let (pod, message) = self.registry.messages(container);
        let request = UpdateContainerRequest {
            pod: Some(pod).into(),
            container: Some(message).into(),
            linux_resources: Some(fields).into(),
            ..Default::default()
        };
        let context = self.request_context();
        let shadow = context.consults_all();
        let result = self
            .adaptation
            .update_container(request, &context, |outcome| {
                self.commit_update(container, &requested.fields, outcome)
            })
            .await;
        log_refusals(context);
        let agreed = result.map_err(Error::from).and_then(|agreed| agreed);
        if !shadow {
            return agreed;
        }
        let record = container.record();
        let (id, pod) = (&record.key.id, &record.pod_id);
        let guard = match agreed {
            Ok((outcome, guard)) => {
                if let Some(update) = outcome.merged_update {
                    let owners = outcome.owners.owners.get(&update.container_id);
                    let plugin = owners.map(all_owners).unwrap_or_default();
                    let fields = described(&update);
                    tracing::info!(container = id, pod, plugin, fields, "shadow: would be updated");
                }
                guard
            }
            Err(error) => {
                let error = error.line(id);
                tracing::info!(container = id, pod, error, "shadow: would be refused");
                container.update_lock.clone().lock_owned().await
            }
        };
        Ok((UpdateOutcome::default(), guard))
    }

    /// Sends the update of a pod to plugins, which can refuse the update but not change it.
    async fn request_pod_update(
        &self,
        sandbox: &Container,
        fields: proto::LinuxResources,
    ) -> Result<UpdateGuard, AdaptError> {
        let (pod, _) = self.registry.messages(sandbox);
        let request = proto::UpdatePodSandboxRequest {
            pod: Some(pod).into(),
            linux_resources: Some(fields).into(),
            ..Default::default()
        };
        let context = self.request_context();
        let commit = || sandbox.update_lock.clone().lock_owned();
        let agreed = self.adaptation.update_pod_sandbox(request, &context, commit).await;
        log_refusals(context);
        agreed
    }

    /// Commits the replies: updates other containers, and takes the update lock of `container`.
    /// Commits run in the order of the requests.
    async fn commit_update(
        &self,
        container: &Container,
        fields: &Value,
        outcome: UpdateOutcome,
    ) -> Result<(UpdateOutcome, UpdateGuard), Error> {
        let own = outcome
            .merged_update
            .as_ref()
            .and_then(|a| a.linux.as_ref())
            .and_then(|l| l.resources.as_ref());
        if let Some(own) = own {
            let record = container.record();
            let owners = outcome.owners.owners.get(record.nri_id()).cloned().unwrap_or_default();
            check_updatable(own, &owners)?;
            let before = with_request(&record, fields);
            let after = self.resource_manager.overlay(&before, own, &owners).await?;
            let record = Record { effective: before.into(), ..Record::clone(&record) };
            self.resource_manager.check_supported(&record, &after, &owners).await?;
        }
        let failed = self
            .resource_manager
            .update_all(outcome.updates.clone(), UpdateSource::Merged(&outcome.owners))
            .await;
        check_required(failed)?;
        let by = EvictionSource::Merged(&outcome.evictors);
        self.resource_manager.evict_all(outcome.evictions.clone(), by);
        Ok((outcome, container.update_lock.clone().lock_owned().await))
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
    let known = match whole::is_whole(&document, record) {
        true => &record.requested,
        false => &Value::Null,
    };
    let fields = changed(known, &without_call_flags(&document));
    let mut all = Value::clone(&record.requested);
    overlay(&mut all, &fields);
    Ok(Requested { document, fields, all, other_arguments: arguments.others })
}

impl Requested {
    fn sets_swap(&self) -> bool {
        self.fields.pointer("/memory/swap").is_some()
    }

    /// Builds arguments and stdin that pass all effective resources to the runtime.
    fn substitute(&self, effective: &Value, id: &str) -> Substitute {
        let mut arguments = vec![OsText::from("--resources"), OsText::from("-")];
        arguments.extend(self.other_arguments.iter().cloned());
        arguments.push(OsText::from(id));
        let stdin = for_runtime(effective, &self.document).to_string();
        Substitute { arguments: Some(arguments), stdin: Some(stdin), exec: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::record::EXAMPLE;
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
        let stdin = request.substitute(&effective, "c1").stdin.unwrap();
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
        assert_eq!(first.all, json!({"memory": {"limit": 8}}));
        let next = json!({"pids": {"limit": 7}});
        let record = self::record("", first.all, with_request(&record, &first.fields));
        assert_eq!(sent(&record, &next), json!({"memory": {"limit": 8}, "pids": {"limit": 7}}));
    }
}
