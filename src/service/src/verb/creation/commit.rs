//! The `CreateContainer` request to plugins, and the commit of its outcome: the plan (`plan.rs`) is
//! performed, or in shadow mode logged.

use crate::{
    audit::ChangesByPlugin,
    bundle::{own, record::OwnBundle},
    error::{Error, HostError},
    host::runtime::LowLevelRuntime,
    lifecycle::{
        creation::{Consulted, Recorded},
        shadow::mode_of,
    },
    plugins::{effects::Effects, update::check_required},
    service::Service,
    state::{container::Container, exec_marker, locks::ContainerLock},
    verb::creation::{
        adjusted_config::AdjustedConfig,
        draft::Draft,
        exec_limits,
        missed::log_creation,
        plan::{CreationPlan, changes_by_plugin},
    },
};
use nri_adaptation::RequestContext;
use nri_config::Mode;
use nri_files::{AuditEvent, AuditLine, MissedPlugin};
use nri_merge::{CreateOutcome, Ignored};
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
        let container = draft.container_message()?;
        let pod = self.registry.pods.get(draft.pod_id()).map(|p| p.sandbox.get());
        let pod = pod.unwrap_or_else(|| draft.pod_message());
        let context = self.request_context().with_origin(draft.origin());
        // The pod may have started before.
        let context = context.waiting_since(draft.begun);
        let commit = |plan| self.commit(lock, &draft, plan, &context);
        let created =
            self.plan_creation(&draft, pod.clone(), container.clone(), &context, commit).await;
        let created = created.map_err(Error::from).and_then(|created| created);
        match &created {
            Ok(recorded) => log_creation(&recorded.container().record()),
            Err(_) => self.audit_consultation(&draft, &context, &[]),
        }
        let created = Consulted { context: &context, pod, container }.then(self, created).await;
        self.audit_withheld(&draft, &context).await;
        for refusal in self.log_refusals(context) {
            self.audit_would_refuse(&draft.audit_line(AuditEvent::WouldRefuse), &refusal.into());
        }
        created
    }

    /// Writes to the audit log which plugins received a creation, and without which the container
    /// is created.
    fn audit_consultation(&self, draft: &Draft, context: &RequestContext, missed: &[MissedPlugin]) {
        let plugins: Vec<_> = context.reached().iter().map(ToString::to_string).collect();
        if self.audit.is_enabled() && !(plugins.is_empty() && missed.is_empty()) {
            let (line, missed) = (draft.audit_line(AuditEvent::Consulted), missed.to_vec());
            self.audit.write(AuditLine { plugins, missed, ..line });
        }
    }

    /// Commits a plan: performs it, or logs it and performs that of an unadjusted creation. Commits
    /// run one at a time, in the order of the requests.
    async fn commit(
        &self,
        lock: &ContainerLock,
        draft: &Draft,
        plan: CreationPlan,
        context: &RequestContext,
    ) -> Result<Recorded, Error> {
        let CreationPlan { outcome, adjusted } = plan;
        let missed = self.missed(context, &outcome.consulted);
        match mode_of(context) {
            Mode::Apply => {
                for ignored in &outcome.ignored {
                    tracing::warn!(
                        plugin = %ignored.plugin,
                        container = ignored.container,
                        pod = draft.pod_id(),
                        what = ignored.what,
                        "adjustment without effect ignored"
                    );
                }
                let adjusted = adjusted?;
                let performed = self.perform(lock, draft, &outcome, &adjusted, missed.clone());
                let recorded = performed.await?;
                self.audit_consultation(draft, context, &missed);
                if self.audit.is_enabled() {
                    let changes = changes_by_plugin(draft, &outcome, &adjusted);
                    self.audit_changes(recorded.container(), draft, changes, &outcome.ignored);
                }
                self.plugins.requests.report_conflicts(&outcome.failed);
                Ok(recorded)
            }
            Mode::Shadow => {
                self.audit_consultation(draft, context, &missed);
                let line = draft.audit_line(AuditEvent::WouldAdjust);
                let found = adjusted.map(|adjusted| changes_by_plugin(draft, &outcome, &adjusted));
                let effects = Effects::from(&outcome);
                self.log_would_adjust(&line, draft.pod_id(), found, &effects).await;
                let unadjusted = self.plan_unadjusted(draft, outcome.pristine).await;
                let CreationPlan { outcome, adjusted } = unadjusted;
                self.perform(lock, draft, &outcome, &adjusted?, missed).await
            }
        }
    }

    /// Writes what plugins changed in a creation to the audit log, and what had no effect.
    fn audit_changes(
        &self,
        container: &Container,
        draft: &Draft,
        changes: ChangesByPlugin,
        ignored: &[Ignored],
    ) {
        if changes.is_empty() && ignored.is_empty() {
            return;
        }
        let line = self.audit_line(&container.record(), AuditEvent::Adjustment);
        self.audit.write_changes(&line, draft.verb.name(), changes);
        self.audit_ignored(&line, draft.verb.name(), ignored);
    }

    /// Performs a creation: adds the container's record, updates other containers, and writes the
    /// bundle.
    async fn perform(
        &self,
        lock: &ContainerLock,
        draft: &Draft,
        outcome: &CreateOutcome,
        adjusted: &AdjustedConfig,
        missed: Vec<MissedPlugin>,
    ) -> Result<Recorded, Error> {
        let mut record = draft.record(&adjusted.container, adjusted.text.as_ref());
        record.hooked = adjusted.hooked;
        record.missed = missed;
        let owners = &outcome.owners.owners;
        record.owners = owners.get(&outcome.container.id).cloned().unwrap_or_default();
        record.derived = adjusted.derived.clone();
        record.exec_limits = exec_limits::limits(&adjusted.config, &self.settings().config.exec);
        let effective = adjusted.config.resources().cloned();
        record.effective = Arc::new(effective.unwrap_or_else(|| serde_json::json!({})));
        record.share_resources();
        let recorded = Recorded::insert(&self.registry, lock, record)?;
        let container = recorded.container();
        let (effects, requests) = (Effects::from(outcome), &self.plugins.requests);
        let performed = async {
            check_required(requests.update_all(&effects, Some(container)).await)?;
            let record = container.record();
            let changes = exec_marker::changes(&draft.config, &adjusted.config);
            exec_marker::set(&self.settings().state_dir, &record, changes)
                .map_err(HostError::ExecMarker)?;
            if let Some(own) = &record.bundle.own {
                self.write_bundle(&draft.runtime, own)?;
            }
            requests.evict_all(&effects);
            Ok::<_, Error>(())
        };
        let performed = performed.await;
        recorded.then(self, performed).await
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
