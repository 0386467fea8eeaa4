//! Requests that plugins can refuse: who was asked, and that those hear of it when it comes to
//! nothing.
//!
//! A plugin that was not asked, because one before it refused or because it came later, hears
//! nothing: to it there never was such a container, or there was another one of that id.

use nri_api::proto::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::plugin::Plugin;
use crate::{AdaptError, Adaptation, StopOutcome};

/// One request that plugins can refuse: whether a refusal ends it, and what came of it.
#[derive(Debug, Default)]
pub struct RequestContext {
    consult_all: bool,
    so_far: Mutex<SoFar>,
}

#[derive(Debug, Default)]
struct SoFar {
    /// Serial numbers of plugins.
    reached: Vec<u64>,
    refusals: Vec<AdaptError>,
}

impl RequestContext {
    /// All are asked, and a refusal is kept but refuses nothing: whoever calls only wants to know.
    pub fn consult_all() -> Self {
        Self { consult_all: true, ..Self::default() }
    }

    /// Whether a refusal refuses nothing.
    pub fn consults_all(&self) -> bool {
        self.consult_all
    }

    /// What was refused, and yet went on.
    pub fn into_refusals(self) -> Vec<AdaptError> {
        self.so_far.into_inner().unwrap_or_else(PoisonError::into_inner).refusals
    }

    /// Whether the plugin has been asked.
    pub(crate) fn has_reached(&self, plugin: &Plugin) -> bool {
        self.lock().reached.contains(&plugin.serial)
    }

    /// Notes that the plugin was asked, unless the request was never sent.
    pub(crate) fn reach<T>(&self, plugin: &Plugin, answer: &Result<T, AdaptError>) {
        if !matches!(answer, Err(AdaptError::TooLarge { .. })) {
            self.lock().reached.push(plugin.serial);
        }
    }

    /// Notes what a plugin answered; `None` if the request goes on without its answer.
    pub(crate) fn note<T>(
        &self,
        plugin: &Plugin,
        answer: Result<Option<T>, AdaptError>,
    ) -> Result<Option<T>, AdaptError> {
        self.reach(plugin, &answer);
        match answer {
            Ok(answer) => Ok(answer),
            Err(refusal) => self.refuse(refusal).map(|()| None),
        }
    }

    /// Refuses the request, unless all are to be asked.
    pub(crate) fn refuse(&self, refusal: AdaptError) -> Result<(), AdaptError> {
        if !self.consult_all {
            return Err(refusal);
        }
        self.lock().refusals.push(refusal);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, SoFar> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Adaptation {
    /// A creation does not come about: those who were asked hear that the container stopped and is
    /// removed, and free what they hold for it. `commit` is that of [`Adaptation::stop_container`].
    pub async fn roll_back_creation(
        &self,
        asking: &RequestContext,
        pod: PodSandbox,
        container: Container,
        commit: impl AsyncFnOnce(StopOutcome),
    ) {
        let (pod, container) = (Some(pod).into(), Some(container).into());
        let stop = StopContainerRequest { pod, container, ..Default::default() };
        let (pod, container) = (stop.pod.clone(), stop.container.clone());
        let passage = self.inner.line.enter_again(Event::STOP_CONTAINER, asking);
        self.stop_along(passage, stop, commit).await;
        let remove = RemoveContainerRequest { pod, container, ..Default::default() };
        let passage = self.inner.line.enter_again(Event::REMOVE_CONTAINER, asking);
        self.tell_along(passage, remove, async || ()).await;
    }

    /// A pod does not come about: those who were asked hear that it stopped and is removed.
    pub async fn roll_back_pod(&self, asking: &RequestContext, pod: PodSandbox) {
        let stop = StopPodSandboxRequest { pod: Some(pod.clone()).into(), ..Default::default() };
        let passage = self.inner.line.enter_again(Event::STOP_POD_SANDBOX, asking);
        self.tell_along(passage, stop, async || ()).await;
        let remove = RemovePodSandboxRequest { pod: Some(pod).into(), ..Default::default() };
        let passage = self.inner.line.enter_again(Event::REMOVE_POD_SANDBOX, asking);
        self.tell_along(passage, remove, async || ()).await;
    }
}
