//! The `CreateContainer` request to plugins, and the commit of its outcome.

use crate::{
    audit::ChangesByPlugin,
    bundle::{own, record::OwnBundle},
    error::{Error, HostError},
    host::runtime::LowLevelRuntime,
    lifecycle::{
        creation::{Consulted, Recorded},
        shadow::log_refusals,
    },
    plugins::{
        eviction::EvictionSource,
        update::{UpdateSource, check_required},
    },
    service::Service,
    state::{container::Container, exec_marker, locks::ContainerLock},
    verb::creation::{
        adjusted_config::{AdjustedConfig, Agreed},
        changes::creation_changes,
        draft::Draft,
        missed::log_creation,
        shadow,
    },
};
use nri_adaptation::RequestContext;
use nri_api::proto::CreateContainerRequest;
use nri_files::{AuditEvent, MissedPlugin};
use nri_merge::CreateOutcome;
use rustix::fs::OFlags;
use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    sync::Arc,
};

impl Service {
    /// Sends a creation to plugins, and commits the outcome.
    pub(super) async fn request_creation(
        &self,
        lock: &ContainerLock,
        draft: Draft,
    ) -> Result<Recorded, Error> {
        let draft = Arc::new(draft);
        let container = draft.container_message()?;
        let pod_id = draft.pod_id().to_owned();
        let pod = self.registry.pods.get(&pod_id).map(|p| p.sandbox.get());
        let pod = pod.unwrap_or_else(|| draft.pod_message());
        let request = CreateContainerRequest {
            pod: Some(pod.clone()).into(),
            container: Some(container.clone()).into(),
            ..Default::default()
        };
        let context = self.request_context();
        let shadow = context.consults_all();
        let result = self
            .plugins
            .adaptation
            .create_container(
                request,
                &context,
                |outcome: CreateOutcome| self.probe_host(&draft, outcome),
                |agreed: Agreed| self.commit(lock, draft.clone(), pod_id, agreed, shadow, &context),
            )
            .await;
        let created = result.map_err(Error::from).and_then(|created| created);
        match &created {
            Ok(recorded) => log_creation(&recorded.container().record()),
            Err(_) => self.audit_consultation(&draft, &context, &[]),
        }
        let created = Consulted { context: &context, pod, container }.then(self, created).await;
        for refusal in log_refusals(context) {
            self.audit_would_refuse(&draft, &refusal.into());
        }
        created
    }

    /// Writes which plugins received a creation to the audit log.
    fn audit_consultation(&self, draft: &Draft, context: &RequestContext, missed: &[MissedPlugin]) {
        if self.audit.is_enabled() {
            let line = draft.audit_line(AuditEvent::Consulted);
            self.audit_consulted(line, draft.verb.name(), &context.reached(), missed.to_vec());
        }
    }

    /// Commits the plugins' replies: adds the container's record, updates other containers, and
    /// writes its bundle. Commits run one at a time, in the order of the requests.
    async fn commit(
        &self,
        lock: &ContainerLock,
        draft: Arc<Draft>,
        pod_id: String,
        mut agreed: Agreed,
        shadow: bool,
        context: &RequestContext,
    ) -> Result<Recorded, Error> {
        let missed = self.missed(context, &agreed.outcome.consulted);
        if shadow {
            self.audit_consultation(&draft, context, &missed);
            self.log_shadow(&draft, agreed).await;
            let unadjusted = shadow::unadjusted(draft.container_message()?);
            agreed = self.probe_host(&draft, unadjusted).await;
        }
        let Agreed { mut outcome, host } = agreed;
        for ignored in &outcome.ignored {
            tracing::warn!(
                plugin = %ignored.plugin,
                container = ignored.container,
                pod = draft.pod_id(),
                what = ignored.what,
                "adjustment without effect ignored"
            );
        }
        let adjusted = self.adjust_checked(&draft, &mut outcome, &host?).await?;
        let mut record = draft.record(&adjusted.container, adjusted.text.as_ref());
        record.pod_id = pod_id;
        record.hooked = adjusted.hooked;
        record.missed = missed;
        let owners = &outcome.owners.owners;
        record.owners = owners.get(&outcome.container.id).cloned().unwrap_or_default();
        record.derived = adjusted.derived.clone();
        let effective = adjusted.config.resources().cloned();
        record.effective = Arc::new(effective.unwrap_or_else(|| serde_json::json!({})));
        record.share_resources();
        let recorded = Recorded::insert(&self.registry, lock, record)?;
        let changes = self.changes_to_audit(&draft, &adjusted, &outcome);
        let ignored = outcome.ignored.clone();
        let performed = self.perform(&draft, &adjusted, recorded.container(), outcome).await;
        let recorded = recorded.then(self, performed).await?;
        let record = recorded.container().record();
        if !shadow {
            self.audit_consultation(&draft, context, &record.missed);
        }
        if !changes.is_empty() || !ignored.is_empty() {
            let line = self.audit_line(&record, AuditEvent::Adjustment);
            self.audit_changes(&line, draft.verb.name(), changes);
            self.audit_ignored(&line, draft.verb.name(), &ignored);
        }
        Ok(recorded)
    }

    /// Returns the changes that plugins made, if there is an audit log.
    fn changes_to_audit(
        &self,
        draft: &Draft,
        adjusted: &AdjustedConfig,
        outcome: &CreateOutcome,
    ) -> ChangesByPlugin {
        if !adjusted.is_adjusted || !self.audit.is_enabled() {
            return ChangesByPlugin::new();
        }
        let hook = draft.hook.as_ref().map(|hook| hook.program.as_path());
        creation_changes(draft.config.value(), adjusted.config.value(), outcome, hook)
    }

    /// Performs the effects of an agreed creation; the record is already written.
    async fn perform(
        &self,
        draft: &Arc<Draft>,
        adjusted: &AdjustedConfig,
        container: &Container,
        outcome: CreateOutcome,
    ) -> Result<(), Error> {
        let source = UpdateSource::Merged(&outcome.owners, Some(container));
        check_required(self.plugins.requests.update_all(outcome.updates, source).await)?;
        let exec = exec_marker::changes(&draft.config, &adjusted.config);
        let (state_dir, key) = (&self.settings().state_dir, &draft.key);
        exec_marker::set(state_dir, &key.id, &key.root, Some(exec))
            .map_err(HostError::ExecMarker)?;
        if let Some(own) = &container.record().bundle.own {
            self.write_bundle(&draft.runtime, own)?;
        }
        let by = EvictionSource::Merged(&outcome.evictors);
        self.plugins.requests.evict_all(outcome.evictions, by);
        Ok(())
    }

    /// Writes the bundle of a container, and checks that its runtime can see it.
    fn write_bundle(&self, runtime: &LowLevelRuntime, own: &OwnBundle) -> Result<(), HostError> {
        let state_dir = &self.settings().state_dir;
        let dir = own::path(state_dir, &own.name);
        let failed = |source| HostError::OwnBundle { dir: dir.clone(), source };
        own::write(state_dir, own).map_err(failed)?;
        if runtime.namespace().is_none() {
            return Ok(());
        }
        let identity = |meta: fs::Metadata| (meta.dev(), meta.ino());
        let here = fs::metadata(&dir).map(identity).map_err(failed)?;
        let there = runtime.open(&dir, OFlags::DIRECTORY).map_err(failed)?;
        if File::from(there).metadata().map(identity).map_err(failed)? == here {
            Ok(())
        } else {
            Err(failed(io::Error::other("the engine has another directory there")))
        }
    }
}
