//! Events whose replies change nothing: events that a plugin can refuse, events that it cannot
//! refuse, and post-events, which are sent after a change.

use nri_api::proto::*;
use std::future::IntoFuture;
use std::pin::Pin;
use tokio::task::JoinHandle;
use tracing::warn;

use crate::adaptation::Adaptation;
use crate::error::AdaptError;
use crate::events::turn::Turn;
use crate::order::context::RequestContext;
use crate::order::pipeline::RequestTickets;
use crate::order::slot::PluginTicket;
use crate::plugin::calls::EventRequest;
use crate::plugin::request::EncodedRequest;
use crate::plugin::trace::inherited;

/// Events that a plugin can refuse: plugins are called one after the other.
impl Adaptation {
    /// Calls the plugins for the start of a pod. For order, commit and dropped futures see
    /// [`Adaptation::create_container`].
    ///
    /// # Errors
    /// If a plugin refuses.
    pub async fn run_pod_sandbox<R>(
        &self,
        request: RunPodSandboxRequest,
        context: &RequestContext,
        commit: impl AsyncFnOnce() -> R,
    ) -> Result<R, AdaptError> {
        self.request_consent(request, context, commit).await
    }

    /// Calls the plugins for an update of a pod's resources, like [`Adaptation::run_pod_sandbox`].
    ///
    /// # Errors
    /// If a plugin refuses.
    pub async fn update_pod_sandbox<R>(
        &self,
        request: UpdatePodSandboxRequest,
        context: &RequestContext,
        commit: impl AsyncFnOnce() -> R,
    ) -> Result<R, AdaptError> {
        self.request_consent(request, context, commit).await
    }

    /// Calls the plugins for the start of a container, like [`Adaptation::run_pod_sandbox`].
    ///
    /// # Errors
    /// If a plugin refuses.
    pub async fn start_container<R>(
        &self,
        request: StartContainerRequest,
        context: &RequestContext,
        commit: impl AsyncFnOnce() -> R,
    ) -> Result<R, AdaptError> {
        self.request_consent(request, context, commit).await
    }

    async fn request_consent<Q: EventRequest, R>(
        &self,
        request: Q,
        context: &RequestContext,
        commit: impl AsyncFnOnce() -> R,
    ) -> Result<R, AdaptError> {
        let subject = self.core.subject_of(&request, context.origin());
        let tickets = self.core.pipeline.enter(Q::EVENT, subject.as_ref());
        let request = EncodedRequest::new(request);
        let mut time = self.core.request_time(Q::EVENT, request.subject(), Some(context));
        for ticket in tickets.plugins {
            let turn = self.core.turn(ticket, &mut time, context, subject.as_ref()).await?;
            if let (plugin, Turn::Call(permit)) = turn {
                let withheld = plugin.policy.get().withholds(subject.as_ref());
                let reply = time.call(&plugin, withheld, permit, &request).await;
                context.record_reply(&plugin, withheld, reply)?;
            }
        }
        let _permit = self.core.permit_to_commit(tickets.commit).await;
        Ok(commit().await)
    }
}

/// Events that a plugin cannot refuse: all plugins are notified in parallel, and failures are
/// logged.
///
/// The commit of a removal removes the pod or container from the manager's records: a plugin that
/// registers at that time either receives the removal or gets a snapshot without the container.
impl Adaptation {
    /// Notifies the plugins of the stop of a pod. For order, commit and dropped futures see
    /// [`Adaptation::create_container`].
    pub async fn stop_pod_sandbox<R>(
        &self,
        request: StopPodSandboxRequest,
        commit: impl AsyncFnOnce() -> R,
    ) -> R {
        self.notify(request, commit).await
    }

    /// Notifies the plugins of the removal of a pod, like [`Adaptation::stop_pod_sandbox`].
    pub async fn remove_pod_sandbox<R>(
        &self,
        request: RemovePodSandboxRequest,
        commit: impl AsyncFnOnce() -> R,
    ) -> R {
        self.notify(request, commit).await
    }

    /// Notifies the plugins of the removal of a container, like [`Adaptation::stop_pod_sandbox`].
    pub async fn remove_container<R>(
        &self,
        request: RemoveContainerRequest,
        commit: impl AsyncFnOnce() -> R,
    ) -> R {
        self.notify(request, commit).await
    }

    async fn notify<Q: EventRequest, R>(&self, request: Q, commit: impl AsyncFnOnce() -> R) -> R {
        let subject = self.core.subject_of(&request, None);
        let tickets = self.core.pipeline.enter(Q::EVENT, subject.as_ref());
        self.notify_with(tickets, request, commit).await
    }

    /// Delivers an event to the plugins of `tickets`, then calls `commit`.
    pub(crate) async fn notify_with<Q: EventRequest, R>(
        &self,
        tickets: RequestTickets,
        request: Q,
        commit: impl AsyncFnOnce() -> R,
    ) -> R {
        let RequestTickets { plugins, commit: commit_ticket, .. } = tickets;
        let subscribed = plugins.into_iter().filter(PluginTicket::is_subscribed);
        self.deliver(subscribed.collect(), request).await;
        let _permit = self.core.permit_to_commit(commit_ticket).await;
        commit().await
    }
}

/// Post-events: all plugins are notified in parallel, and the caller need not wait.
///
/// The event takes its tickets when the method is called. Each plugin therefore receives the event
/// before any later request, whether or not the caller awaits the delivery.
impl Adaptation {
    /// Notifies the plugins that a pod's resources were updated.
    pub fn post_update_pod_sandbox(&self, request: PostUpdatePodSandboxRequest) -> Delivery {
        self.post(request)
    }

    /// Notifies the plugins that a container was created.
    pub fn post_create_container(&self, request: PostCreateContainerRequest) -> Delivery {
        self.post(request)
    }

    /// Notifies the plugins that a container was started.
    pub fn post_start_container(&self, request: PostStartContainerRequest) -> Delivery {
        self.post(request)
    }

    /// Notifies the plugins that a container's resources were updated.
    pub fn post_update_container(&self, request: PostUpdateContainerRequest) -> Delivery {
        self.post(request)
    }

    fn post<Q: EventRequest>(&self, request: Q) -> Delivery {
        let subject = self.core.subject_of(&request, None);
        self.deliver(self.core.pipeline.enter_post(Q::EVENT, subject.as_ref()), request)
    }

    fn deliver<Q: EventRequest>(&self, to: Vec<PluginTicket>, request: Q) -> Delivery {
        if to.is_empty() {
            return Delivery(Vec::new());
        }
        self.deliver_encoded(to, &EncodedRequest::new(request))
    }

    /// Delivers an event to plugins. The caller need not wait.
    pub(crate) fn deliver_encoded<Q: EventRequest>(
        &self,
        to: Vec<PluginTicket>,
        request: &EncodedRequest<Q>,
    ) -> Delivery {
        let notify = |ticket: PluginTicket| {
            let Some(waiting) = ticket.session().undelivered.add(request.size()) else {
                ticket.session().record_undelivered(Q::EVENT);
                return None;
            };
            let request = request.clone();
            Some(self.core.runtime.spawn(inherited(async move {
                let _waiting = waiting;
                let (plugin, Some(permit)) = ticket.turn().await else { return };
                if let Err(e) = plugin.call(permit, &request).await {
                    warn!("{e}");
                }
            })))
        };
        Delivery(to.into_iter().filter_map(notify).collect())
    }
}

/// Delivery of an event to its plugins. The delivery continues if this value is dropped; awaiting
/// the value waits until every plugin has replied or failed.
#[derive(Debug)]
pub struct Delivery(Vec<JoinHandle<()>>);

impl IntoFuture for Delivery {
    type Output = ();
    type IntoFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            for task in self.0 {
                // A panic in one task does not affect the delivery to other plugins.
                let _ = task.await;
            }
        })
    }
}
