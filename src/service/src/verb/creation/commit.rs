//! The `CreateContainer` request to plugins, and the commit of its outcome.

use crate::{
    error::{Error, HostError},
    lifecycle::shadow::log_refusals,
    resources::apply::{UpdateSource, check_required},
    service::Service,
    state::{container::Container, exec_marker},
    verb::creation::{
        draft::Draft,
        layout::{Agreed, Layout},
        shadow,
    },
};
use nri_api::proto::CreateContainerRequest;
use nri_merge::CreateOutcome;
use std::sync::Arc;

impl Service {
    /// Sends a creation to plugins, and commits the outcome.
    pub(super) async fn request_creation(&self, draft: Draft) -> Result<Arc<Container>, Error> {
        let draft = Arc::new(draft);
        let container = draft.container_message()?;
        let pod_id = draft.pod_id().to_owned();
        let pod = self.registry.pods.get(&pod_id).map(|p| p.sandbox);
        let pod = pod.unwrap_or_else(|| draft.pod_message());
        let request = CreateContainerRequest {
            pod: Some(pod.clone()).into(),
            container: Some(container.clone()).into(),
            ..Default::default()
        };
        let context = self.request_context();
        let shadow = context.consults_all();
        let result = self
            .adaptation
            .create_container(
                request,
                &context,
                |outcome: CreateOutcome| self.probe_host(outcome),
                |agreed: Agreed| self.commit(draft.clone(), pod_id, agreed, shadow),
            )
            .await;
        let created = result.map_err(Error::from).and_then(|created| created);
        if created.is_err() {
            // Plugins that received the request may have allocated something for the container.
            self.creation_failed(&context, pod, container).await;
        }
        log_refusals(context);
        created
    }

    /// Adds the record, updates other containers, and replaces `config.json`. Commits run one at a
    /// time, in the order of the requests.
    async fn commit(
        &self,
        draft: Arc<Draft>,
        pod_id: String,
        mut agreed: Agreed,
        shadow: bool,
    ) -> Result<Arc<Container>, Error> {
        if shadow {
            self.log_shadow(&draft, agreed).await;
            agreed = self.probe_host(shadow::unadjusted(draft.container_message()?)).await;
        }
        let Agreed { outcome, host } = agreed;
        for ignored in &outcome.ignored {
            tracing::warn!(
                plugin = %ignored.plugin,
                container = ignored.container,
                what = ignored.what,
                "adjustment without effect ignored"
            );
        }
        let layout = self.lay_out_checked(&draft, &outcome, &host?).await?;
        let mut record = draft.record(layout.container.clone(), layout.changed.as_ref());
        record.pod_id = pod_id;
        record.hooked = layout.hooked;
        let owners = &outcome.owners.owners;
        record.owners = owners.get(&outcome.container.id).cloned().unwrap_or_default();
        let effective = layout.config.resources().cloned();
        record.effective = effective.unwrap_or_else(|| serde_json::json!({}));
        let container = self.registry.insert(record)?;
        if let Err(error) = self.perform(&draft, &layout, outcome).await {
            self.forget(&draft.key);
            return Err(error);
        }
        Ok(container)
    }

    async fn perform(
        &self,
        draft: &Draft,
        layout: &Layout,
        outcome: CreateOutcome,
    ) -> Result<(), Error> {
        let by = UpdateSource::Merged(&outcome.owners);
        check_required(self.resource_manager.update_all(outcome.updates, by).await)?;
        let exec = exec_marker::changes(&draft.config, &layout.config);
        let (state_dir, key) = (&self.settings().state_dir, &draft.key);
        exec_marker::set(state_dir, &key.id, &key.root, Some(exec))
            .map_err(HostError::ExecMarker)?;
        let bytes = layout.changed.as_deref().unwrap_or_else(|| draft.original_bytes());
        if bytes != draft.found.bytes {
            match &draft.link {
                Some(link) if layout.changed.is_none() => {
                    draft.bundle.restore_link(link, &draft.found)?;
                }
                _ => draft.bundle.replace(bytes, &draft.found)?,
            }
        }
        self.resource_manager.evict_all(outcome.evictions);
        Ok(())
    }
}
