//! The part of a dry run that follows a creation: the draft, the requests to plugins, and the
//! adjusted `config.json`. Nothing is committed: no record, no update, no file.

use crate::{
    audit::ChangesByPlugin,
    bundle::bounded,
    engine::own_nri::ContainerEngine,
    error::{CallerError, Error},
    resources::description::described,
    service::Service,
    state::{
        pod::{PodKind, PodRecord},
        record::Record,
    },
    verb::{
        creation::{
            adjusted_config::Agreed, changes::creation_changes, draft::Draft, infra, pod_identity,
        },
        request::VerbRequest,
    },
};
use nri_adaptation::{AbsentPlugin, RequestContext};
use nri_api::{
    PluginId,
    proto::{self, CreateContainerRequest, OwningPlugins, RunPodSandboxRequest},
};
use nri_control::{DryRunEviction, DryRunUpdate};
use nri_engine::Role;
use nri_merge::CreateOutcome;
use serde_json::Value;
use std::path::Path;

/// A creation that is only asked about.
pub struct DryRunDraft {
    draft: Draft,
    container: proto::Container,
    pod: proto::PodSandbox,
    /// Whether the pod would start with the container.
    is_new_pod: bool,
    /// Reason why plugins do not adjust the container.
    pub skipped: Option<String>,
}

/// What plugins have answered.
pub struct DryRunReplies {
    /// The plugins that received a request.
    pub reached: Vec<PluginId>,
    /// The plugins that did not reply, although they were launched.
    pub missed: Vec<AbsentPlugin>,
    /// The changes, or the reason why the creation would be refused.
    pub result: Result<DryRunEffects, Error>,
}

/// The effects that the creation would have.
pub struct DryRunEffects {
    /// The adjusted `config.json`.
    pub after: Value,
    /// The changes by plugin.
    pub changes: ChangesByPlugin,
    /// Updates of other containers.
    pub updates: Vec<DryRunUpdate>,
    /// Evictions of other containers.
    pub evictions: Vec<DryRunEviction>,
    /// Parts of replies that have no effect.
    pub ignored: Vec<String>,
}

impl DryRunDraft {
    /// Returns the draft.
    pub fn draft(&self) -> &Draft {
        &self.draft
    }
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
        let dir = request.bundle.take().ok_or(CallerError::NoBundle)?;
        let VerbRequest { key, begin, .. } = &request;
        let path = begin.bundle.as_ref().map_or(Path::new("."), |bundle| bundle.as_path());
        let config = begin.config.as_ref().map(|config| config.as_path());
        let bundle = bounded::open(dir, path, config).await?;
        let id = recorded.map_or(key.id.as_str(), Record::nri_id);
        let mut draft = self.draft(&request, None, id, (bundle, path.to_owned())).await?;
        let known_pod = |id: &str| self.registry.pods.get(id);
        infra::prove(&self.path_probe, &mut draft, &begin.environment, known_pod).await;
        if let Some(record) = recorded {
            identify_as_recorded(&mut draft, record, known_pod(&record.pod_id).as_ref());
        }
        let pods = &self.settings().config.pods;
        pod_identity::complete(&mut draft.identity, &draft.key, &draft.config, pods);
        let container = draft.container_message()?;
        // The pod of a single container ends and starts with it.
        let known = known_pod(draft.pod_id()).filter(|pod| pod.kind != PodKind::SingleContainer);
        let is_new_pod = known.is_none();
        let pod = match known {
            Some(known) => known.sandbox.get(),
            None if draft.identity.role == Role::Alone => {
                proto::PodSandbox { id: draft.nri_id.clone(), ..draft.pod_with(&container) }
            }
            None => draft.pod_message(),
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

    /// Asks the plugins, and computes the effects of their replies.
    pub async fn ask_plugins(&self, plan: &DryRunDraft) -> DryRunReplies {
        let DryRunDraft { draft, container, pod, .. } = plan;
        let (start, creation) = (RequestContext::default(), RequestContext::default());
        let result = async {
            if plan.is_new_pod {
                let pod = Some(pod.clone()).into();
                let request = RunPodSandboxRequest { pod, ..Default::default() };
                self.plugins.adaptation.run_pod_sandbox(request, &start, async || ()).await?;
            }
            let request = CreateContainerRequest {
                pod: Some(pod.clone()).into(),
                container: Some(container.clone()).into(),
                ..Default::default()
            };
            self.plugins
                .adaptation
                .create_container(
                    request,
                    &creation,
                    |outcome: CreateOutcome| self.probe_host(draft, outcome),
                    |agreed: Agreed| self.effects(draft, agreed),
                )
                .await?
        };
        let result = result.await;
        let mut missed = start.missed();
        missed.extend(creation.missed());
        let mut reached = creation.reached();
        if result.is_err() {
            reached.extend(start.reached());
        }
        DryRunReplies { reached, missed, result }
    }

    /// Returns the effects that the commit of an outcome would have.
    async fn effects(&self, draft: &Draft, agreed: Agreed) -> Result<DryRunEffects, Error> {
        let Agreed { mut outcome, host } = agreed;
        let adjusted = self.adjust_checked(draft, &mut outcome, &host?).await?;
        let (before, after) = (draft.config.value(), adjusted.config.value());
        let changes = creation_changes(before, after, &outcome, None);
        let update = |update: &proto::ContainerUpdate| DryRunUpdate {
            container: update.container_id.clone(),
            plugins: owners(&outcome.owners, &update.container_id),
            fields: described(update),
        };
        let eviction = |eviction: &proto::ContainerEviction| DryRunEviction {
            container: eviction.container_id.clone(),
            plugin: outcome
                .evictors
                .get(&eviction.container_id)
                .map(ToString::to_string)
                .unwrap_or_default(),
            reason: eviction.reason.clone(),
        };
        let ignored = outcome.ignored.iter();
        Ok(DryRunEffects {
            after: after.clone(),
            changes,
            updates: outcome.updates.iter().map(update).collect(),
            evictions: outcome.evictions.iter().map(eviction).collect(),
            ignored: ignored.map(|part| format!("{}: {}", part.plugin, part.what)).collect(),
        })
    }
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

/// Returns the plugins that own a field of a container.
fn owners(owners: &OwningPlugins, container: &str) -> Vec<String> {
    let Some(owners) = owners.owners.get(container) else { return Vec::new() };
    let compound = owners.compound.values().flat_map(|keys| keys.owners.values());
    let mut plugins: Vec<_> = owners.simple.values().chain(compound).cloned().collect();
    plugins.sort();
    plugins.dedup();
    plugins
}
