//! `CreateContainer`: from the `config.json` of the runtime to the adjusted one.

use nri_adaptation::{CreateOutcome, RequestContext};
use nri_api::proto::{Container, ContainerState, CreateContainerRequest, PodSandbox};
use nri_merge::plugins_of;
use nri_spec::{ContainerInfo, OciConfig, agreed_container, apply, to_container};

use crate::error::Error;
use crate::handler::with_facts;
use crate::nri::{Nri, Shared};

/// The `config.json` of a container, as the plugins want it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdjustedOciConfig {
    /// The text. What no plugin changed is as in the runtime's `config.json`, including the order
    /// of keys and unknown fields.
    pub config: Vec<u8>,
    /// Whether plugins changed anything; if not, `config` is the runtime's text.
    pub changed: bool,
}

/// An adjustment that is not committed yet.
struct Prepared {
    adjusted: AdjustedOciConfig,
    container: Container,
    outcome: CreateOutcome,
}

impl Nri {
    /// Calls the plugins for the creation of a container, and applies their adjustments to its
    /// `config.json`. Also performs the updates and evictions of other containers that plugins
    /// request. Returns the `config.json` to create the container with.
    ///
    /// # Errors
    /// The pod is unknown, the container exists or has no id, a plugin refuses, plugins contradict
    /// one another, an adjustment cannot be applied, or an update of another container fails. The
    /// new container is then unknown to `Nri`, and the plugins that received the event have
    /// received its stop and removal; a container that existed before stays. Updates of other
    /// containers that were performed before the failure are not undone.
    pub async fn create_container(
        &self,
        info: &ContainerInfo,
        config: &[u8],
    ) -> Result<AdjustedOciConfig, Error> {
        let id = &info.id;
        let pod = self.shared.records.pod(&info.pod_sandbox_id)?;
        self.shared.records.check_new_container(id)?;
        let parsed = OciConfig::parse(config);
        let parsed = parsed.map_err(|source| Error::Config { container: id.clone(), source })?;
        let mut container = to_container(&parsed, info)
            .map_err(|source| Error::WrongType { container: id.clone(), source })?;
        container.state = ContainerState::CONTAINER_CREATED.into();
        self.request_creation(&pod, &container, &parsed, config).await
    }

    async fn request_creation(
        &self,
        pod: &PodSandbox,
        container: &Container,
        config: &OciConfig,
        text: &[u8],
    ) -> Result<AdjustedOciConfig, Error> {
        let context = RequestContext::default();
        let request = CreateContainerRequest {
            pod: Some(pod.clone()).into(),
            container: Some(container.clone()).into(),
            ..Default::default()
        };
        let shared = &*self.shared;
        let requested = self.adaptation.create_container(
            request,
            &context,
            async |outcome| shared.prepare(outcome, config, text),
            async |prepared| shared.commit(prepared?).await,
        );
        let created = requested.await.map_err(Error::from).and_then(|created| created);
        if created.is_err() {
            let (pod, container) = (pod.clone(), container.clone());
            let rolled_back =
                self.adaptation.roll_back_creation(&context, pod, container, async |stop| {
                    shared.perform_of_stop(stop.updates).await;
                });
            rolled_back.await;
        }
        created
    }
}

impl Shared {
    /// Applies the merged adjustment to a copy of `config`.
    fn prepare(
        &self,
        outcome: CreateOutcome,
        config: &OciConfig,
        text: &[u8],
    ) -> Result<Prepared, Error> {
        let id = || outcome.container.id.clone();
        let mut adjusted = config.clone();
        let applied =
            with_facts(&*self.handler, |facts| apply(&mut adjusted, &outcome.adjust, facts));
        let applied = applied.map_err(|source| {
            let owners = outcome.owners.owners.get(&outcome.container.id);
            let plugins = owners.map(|owners| plugins_of(owners, &source.fields()));
            let plugins = plugins.unwrap_or_default().into_iter().collect();
            Error::Adjustment { container: id(), plugins, source }
        })?;
        let container =
            agreed_container(&outcome.container, &outcome.adjust.CDI_devices, &adjusted)
                .map_err(|source| Error::WrongType { container: id(), source })?;
        let text = if applied.changed {
            let unambiguous = adjusted.check_change(config, text);
            unambiguous.map_err(|source| Error::Config { container: id(), source })?;
            adjusted.to_bytes()
        } else {
            text.to_vec()
        };
        let adjusted = AdjustedOciConfig { config: text, changed: applied.changed };
        Ok(Prepared { adjusted, container, outcome })
    }

    /// Updates other containers, and records the container.
    async fn commit(&self, prepared: Prepared) -> Result<AdjustedOciConfig, Error> {
        let Prepared { adjusted, container, outcome } = prepared;
        self.perform_of_event(&outcome.updates, &outcome.evictions).await?;
        self.records.add_container(container);
        Ok(adjusted)
    }
}
