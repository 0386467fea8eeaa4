//! The events that change nothing: those that a plugin can fail, those that it cannot, and the
//! post-events.

use nri_api::proto::*;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tracing::warn;

use crate::asking::RequestContext;
use crate::line::{Passage, Stop};
use crate::plugin::Plugin;
use crate::session::EventRequest;
use crate::station::Place;
use crate::{AdaptError, Adaptation};

/// Events that a plugin can fail: the plugins are asked one after the other.
impl Adaptation {
    /// A pod is being run. For order, commit and dropped futures see
    /// [`Adaptation::create_container`].
    ///
    /// # Errors
    /// If a plugin refuses.
    pub async fn run_pod_sandbox<R>(
        &self,
        request: RunPodSandboxRequest,
        asking: &RequestContext,
        commit: impl AsyncFnOnce() -> R,
    ) -> Result<R, AdaptError> {
        self.ask_all(request, asking, commit).await
    }

    /// A pod's resources are being updated. Otherwise as [`Adaptation::run_pod_sandbox`].
    ///
    /// # Errors
    /// If a plugin refuses.
    pub async fn update_pod_sandbox<R>(
        &self,
        request: UpdatePodSandboxRequest,
        asking: &RequestContext,
        commit: impl AsyncFnOnce() -> R,
    ) -> Result<R, AdaptError> {
        self.ask_all(request, asking, commit).await
    }

    /// A container is being started. Otherwise as [`Adaptation::run_pod_sandbox`].
    ///
    /// # Errors
    /// If a plugin refuses.
    pub async fn start_container<R>(
        &self,
        request: StartContainerRequest,
        asking: &RequestContext,
        commit: impl AsyncFnOnce() -> R,
    ) -> Result<R, AdaptError> {
        self.ask_all(request, asking, commit).await
    }

    async fn ask_all<Q: EventRequest, R>(
        &self,
        request: Q,
        asking: &RequestContext,
        commit: impl AsyncFnOnce() -> R,
    ) -> Result<R, AdaptError> {
        let passage = self.inner.line.enter(Q::EVENT);
        for Stop { plugin, place } in passage.stops {
            if let Some(place) = place {
                let turn = place.turn().await;
                let answer = plugin.ask(turn, request.clone()).await;
                asking.note(&plugin, answer)?;
            }
        }
        let _turn = passage.commit.turn().await;
        Ok(commit().await)
    }
}

/// Events that a plugin cannot fail: all plugins are told at the same time, and failures are
/// logged.
///
/// The commit is where the host forgets the pod or container: a plugin that registers either hears
/// of the removal or does not find it in its snapshot.
impl Adaptation {
    /// A pod stopped. For order, commit and dropped futures see [`Adaptation::create_container`].
    pub async fn stop_pod_sandbox<R>(
        &self,
        request: StopPodSandboxRequest,
        commit: impl AsyncFnOnce() -> R,
    ) -> R {
        self.tell_all(request, commit).await
    }

    /// A pod is removed. Otherwise as [`Adaptation::stop_pod_sandbox`].
    pub async fn remove_pod_sandbox<R>(
        &self,
        request: RemovePodSandboxRequest,
        commit: impl AsyncFnOnce() -> R,
    ) -> R {
        self.tell_all(request, commit).await
    }

    /// A container is removed. Otherwise as [`Adaptation::stop_pod_sandbox`].
    pub async fn remove_container<R>(
        &self,
        request: RemoveContainerRequest,
        commit: impl AsyncFnOnce() -> R,
    ) -> R {
        self.tell_all(request, commit).await
    }

    async fn tell_all<Q: EventRequest, R>(&self, request: Q, commit: impl AsyncFnOnce() -> R) -> R {
        self.tell_along(self.inner.line.enter(Q::EVENT), request, commit).await
    }

    pub(crate) async fn tell_along<Q: EventRequest, R>(
        &self,
        passage: Passage,
        request: Q,
        commit: impl AsyncFnOnce() -> R,
    ) -> R {
        let Passage { stops, commit: committing, .. } = passage;
        let told = stops.into_iter().filter_map(|s| Some((s.plugin, s.place?)));
        self.deliver(told.collect(), &request).await;
        let _turn = committing.turn().await;
        commit().await
    }
}

/// Post-events: all plugins are told at the same time, and nobody has to wait for it.
///
/// The event takes its places when the method is called. What enters later comes later at each
/// plugin, whether or not the delivery was awaited.
impl Adaptation {
    /// A pod's resources were updated.
    pub fn post_update_pod_sandbox(&self, request: PostUpdatePodSandboxRequest) -> Delivery {
        self.post(request)
    }

    /// A container was created.
    pub fn post_create_container(&self, request: PostCreateContainerRequest) -> Delivery {
        self.post(request)
    }

    /// A container was started.
    pub fn post_start_container(&self, request: PostStartContainerRequest) -> Delivery {
        self.post(request)
    }

    /// A container's resources were updated.
    pub fn post_update_container(&self, request: PostUpdateContainerRequest) -> Delivery {
        self.post(request)
    }

    fn post<Q: EventRequest>(&self, request: Q) -> Delivery {
        self.deliver(self.inner.line.enter_post(Q::EVENT), &request)
    }
}

/// A post-event on its way. It goes on when this is dropped; awaiting it waits until every plugin
/// has answered or failed to.
#[derive(Debug)]
pub struct Delivery(Vec<JoinHandle<()>>);

impl IntoFuture for Delivery {
    type Output = ();
    type IntoFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            for told in self.0 {
                // A plugin whose task panicked has not heard of it; the others have.
                let _ = told.await;
            }
        })
    }
}

impl Adaptation {
    fn deliver<Q: EventRequest>(&self, to: Vec<(Arc<Plugin>, Place)>, request: &Q) -> Delivery {
        let tell = |(plugin, place): (Arc<Plugin>, Place)| {
            let request = request.clone();
            self.inner.runtime.spawn(async move {
                if let Err(e) = plugin.ask(place.turn().await, request).await {
                    warn!("{e}");
                }
            })
        };
        Delivery(to.into_iter().map(tell).collect())
    }
}
