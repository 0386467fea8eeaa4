//! The plan of a creation: what plugins' replies change, computed in memory. It is used in three
//! ways: `commit.rs` performs it, or logs it in shadow mode; `dry_run.rs` shows it.

use crate::{
    audit::ChangesByPlugin,
    error::Error,
    service::Service,
    verb::creation::{
        adjusted_config::{AdjustedConfig, Agreed},
        changes::creation_changes,
        draft::Draft,
    },
};
use nri_adaptation::{AdaptError, RequestContext};
use nri_api::proto::{Container, CreateContainerRequest, PodSandbox};
use nri_merge::{CreateMerge, CreateOutcome};

/// What plugins' replies to a creation change. Evictions, and updates of other containers, are in
/// the outcome (`Effects::from`).
pub(super) struct CreationPlan {
    /// The merged replies, with the owners of all fields.
    pub(super) outcome: CreateOutcome,
    /// The container's `config.json`, or why the creation is refused.
    pub(super) adjusted: Result<AdjustedConfig, Error>,
}

/// Returns the changes in `config.json` by plugin, CDI devices included that change nothing else.
/// Not part of the plan: without audit log, a creation does not need them.
pub(super) fn changes_by_plugin(
    draft: &Draft,
    outcome: &CreateOutcome,
    adjusted: &AdjustedConfig,
) -> ChangesByPlugin {
    if !adjusted.is_adjusted && outcome.adjust.CDI_devices.is_empty() {
        return ChangesByPlugin::new();
    }
    let hook = draft.hook.as_ref().map(|hook| hook.program.as_path());
    creation_changes(draft.config.value(), adjusted.config.value(), outcome, hook)
}

impl Service {
    /// Sends a creation to plugins, then calls `commit` with the plan. For order and dropped
    /// futures see [`nri_adaptation::Adaptation::create_container`].
    ///
    /// # Errors
    /// A plugin refuses.
    pub(super) async fn plan_creation<R>(
        &self,
        draft: &Draft,
        pod: PodSandbox,
        container: Container,
        context: &RequestContext,
        commit: impl AsyncFnOnce(CreationPlan) -> R,
    ) -> Result<R, AdaptError> {
        let request = CreateContainerRequest {
            pod: Some(pod).into(),
            container: Some(container).into(),
            ..Default::default()
        };
        let probe = |outcome| self.probe_host(draft, outcome);
        let plan_and_commit = async |agreed| commit(self.plan(draft, agreed).await).await;
        self.plugins.adaptation.create_container(request, context, probe, plan_and_commit).await
    }

    /// Returns the plan of a creation that no plugin adjusts.
    pub(super) async fn plan_unadjusted(
        &self,
        draft: &Draft,
        container: Container,
    ) -> CreationPlan {
        let unadjusted = CreateMerge::new(PodSandbox::default(), container).finish();
        self.plan(draft, self.probe_host(draft, unadjusted).await).await
    }

    /// Computes the plan of a merged outcome.
    pub(super) async fn plan(&self, draft: &Draft, agreed: Agreed) -> CreationPlan {
        let Agreed { mut outcome, host } = agreed;
        let adjusted = match host {
            Ok(host) => self.adjust_checked(draft, &mut outcome, &host).await,
            Err(error) => Err(error.into()),
        };
        CreationPlan { outcome, adjusted }
    }
}
