//! The part of a dry run that follows a creation: the draft, the requests to plugins, and the plan.
//! Nothing is performed: no record, no update, no file.

use crate::{
    engine::own_nri::ContainerEngine,
    error::{CallerError, Error},
    lifecycle::request::pod_request,
    plugins::effects::Effects,
    service::Service,
    state::{
        pod::{PodKind, PodRecord},
        record::Record,
    },
    verb::{
        creation::{
            draft::Draft,
            plan::{CreationPlan, changes_by_plugin},
        },
        request::VerbRequest,
    },
};
use nri_adaptation::{AbsentPlugin, RequestContext};
use nri_api::{PluginId, proto};
use nri_control::{DryRun, DryRunChanges};
use nri_engine::Role;

/// A creation that is only asked about.
pub struct DryRunDraft {
    /// The draft.
    pub draft: Draft,
    container: proto::Container,
    pod: proto::PodSandbox,
    /// Whether the pod would start with the container.
    is_new_pod: bool,
    /// Reason why plugins do not adjust the container.
    pub skipped: Option<String>,
}

/// The plugins that a dry run has asked.
pub struct DryRunPlugins {
    /// Those that received a request.
    pub reached: Vec<PluginId>,
    /// Those that did not reply, although they were launched.
    pub missed: Vec<AbsentPlugin>,
}

impl Service {
    /// Prepares the request to plugins for a bundle. `recorded` is the container that was created
    /// from it.
    ///
    /// # Errors
    /// The bundle cannot be used.
    pub async fn draft_dry_run(
        &self,
        mut request: VerbRequest,
        recorded: Option<&Record>,
    ) -> Result<DryRunDraft, Error> {
        let bundle = request.bundle.take().ok_or(CallerError::NoBundle)?;
        let id = recorded.map_or(request.key.id.as_str(), Record::nri_id);
        let known_pod = |id: &str| self.registry.pods.get(id);
        let correct = |draft: &mut Draft| {
            if let Some(record) = recorded {
                identify_as_recorded(draft, record, known_pod(&record.pod_id).as_ref());
            }
        };
        let mut draft = self.identified_draft(&request, bundle, None, id, correct).await?;
        draft.find_facts(self).await;
        let container = draft.container_message()?;
        // The pod of a single container ends and starts with it.
        let known = known_pod(draft.pod_id()).filter(|pod| pod.kind != PodKind::SingleContainer);
        let is_new_pod = known.is_none();
        let pod = match known {
            Some(known) => known.sandbox.get(),
            None => draft.new_pod()?,
        };
        let skipped = self.why_skipped(&draft).await;
        Ok(DryRunDraft { draft, container, pod, is_new_pod, skipped })
    }

    /// Returns the reason why plugins do not adjust a container, if they do not.
    async fn why_skipped(&self, draft: &Draft) -> Option<String> {
        let engines = &self.settings().config.engines;
        if !self.engines.own_nri.is_ours(engines, &ContainerEngine::of(&draft.identity)).await {
            let engine = &draft.identity.engine;
            return Some(format!("the own NRI of {engine} is enabled, which asks the plugins"));
        }
        if let Some(annotation) = self.opt_out(draft) {
            return Some(format!("it has opted out by the annotation {annotation}"));
        }
        let is_sandbox = draft.identity.role == Role::Sandbox;
        is_sandbox.then(|| "it is the sandbox of its pod, which plugins do not adjust".to_owned())
    }

    /// Asks the plugins, and adds to `found` what their replies would change, or why the creation
    /// would be refused.
    pub async fn ask_plugins(&self, plan: DryRunDraft, found: &mut DryRun) -> DryRunPlugins {
        let DryRunDraft { draft, container, pod, is_new_pod, .. } = plan;
        let context = || RequestContext::default().with_origin(draft.origin());
        let (start, creation) = (context(), context());
        let result = async {
            if is_new_pod {
                let request = pod_request!(RunPodSandboxRequest, pod.clone());
                self.plugins.adaptation.run_pod_sandbox(request, &start, async || ()).await?;
            }
            let commit = async |plan| plan;
            let planned = self.plan_creation(&draft, pod, container, &creation, commit).await?;
            show(&draft, planned, found)
        };
        let result = result.await;
        found.ignored.extend(self.described_withheld(&draft, &creation).await);
        let mut missed = start.missed();
        missed.extend(creation.missed());
        let mut reached = creation.reached();
        if let Err(error) = result {
            reached.extend(start.reached());
            found.refusal = Some(error.line(&draft.key.id));
        }
        DryRunPlugins { reached, missed }
    }
}

/// Adds to `found` what a plan would change.
fn show(draft: &Draft, plan: CreationPlan, found: &mut DryRun) -> Result<(), Error> {
    let CreationPlan { outcome, adjusted } = plan;
    let adjusted = adjusted?;
    let of_plugin = |(plugin, changes)| DryRunChanges { plugin, changes };
    let changes = changes_by_plugin(draft, &outcome, &adjusted);
    let effects = Effects::from(&outcome);
    found.after = Some(adjusted.config.value().clone());
    found.changes = changes.into_iter().map(of_plugin).collect();
    found.updates = effects.described_updates().collect();
    found.evictions = effects.described_evictions().collect();
    let ignored = outcome.ignored.iter().map(|part| format!("{}: {}", part.plugin, part.what));
    found.ignored = ignored.collect();
    Ok(())
}

/// Gives a draft the names that the container had at its creation: the engine may not tell them any
/// more, and its call had variables that are not recorded.
fn identify_as_recorded(draft: &mut Draft, record: &Record, pod: Option<&PodRecord>) {
    let message = record.container.get();
    let identity = &mut draft.identity;
    identity.role = match pod.map(|pod| pod.kind) {
        _ if record.sandbox => Role::Sandbox,
        Some(PodKind::SingleContainer) | None => Role::Alone,
        Some(PodKind::Sandbox) => Role::Member,
        Some(PodKind::Shared) => Role::Shared,
    };
    if identity.role != Role::Alone {
        identity.pod.id.clone_from(&record.pod_id);
    }
    identity.name = message.name;
    identity.labels = message.labels.into_iter().collect();
}
