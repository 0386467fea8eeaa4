//! `UpdateContainer` and `StopContainer`: events whose replies update containers.

use nri_api::proto::{Event, StopContainerRequest, UpdateContainerRequest};
use nri_merge::{UpdateMerge, UpdateOutcome, UpdatesMerge, UpdatesOutcome};
use tracing::warn;

use crate::adaptation::Adaptation;
use crate::error::AdaptError;
use crate::events::reply_log::log_updates;
use crate::order::context::RequestContext;
use crate::order::pipeline::RequestTickets;
use crate::plugin::request::{EncodedRequest, UpdateRequests};

/// Outcome of the stop of a container.
#[derive(Debug)]
pub struct StopOutcome {
    /// Updates of other containers.
    pub updates: UpdatesOutcome,
    /// Errors of plugins. A stop cannot be refused, so the replies of other plugins still apply.
    pub failures: Vec<AdaptError>,
}

impl Adaptation {
    /// Calls the plugins for an update that the engine requests, then `commit` with the merged
    /// outcome. For order, commit and dropped futures see [`Adaptation::create_container`].
    ///
    /// # Errors
    /// If a plugin refuses, or replies contradict one another.
    pub async fn update_container<R>(
        &self,
        request: UpdateContainerRequest,
        context: &RequestContext,
        commit: impl AsyncFnOnce(UpdateOutcome) -> R,
    ) -> Result<R, AdaptError> {
        let event = Event::UPDATE_CONTAINER;
        let tickets = self.core.pipeline.enter_when_open(event).await;
        let container = request.container.unwrap_or_default();
        let id = container.id.clone();
        let resources = request.linux_resources.unwrap_or_default();
        let mut merge = UpdateMerge::new(request.pod.unwrap_or_default(), container, resources);
        let requests = UpdateRequests::new(&merge);
        for ticket in tickets.plugins {
            let (plugin, Some(permit)) = ticket.turn().await else { continue };
            let reply = plugin.call(permit, &requests.next(&merge)).await;
            if let Some(reply) = context.record_reply(&plugin, reply)? {
                plugin.counters.record_requests(reply.update.len(), reply.evict.len());
                log_updates(&plugin.id, &reply.update, &reply.evict);
                let check = plugin.reply_check();
                let permitted = check.check_updates(Some(&id), &reply.update, &reply.evict);
                let merged = permitted
                    .map_err(|denied| AdaptError::Denied { event, denied })
                    .and_then(|()| {
                        merge.reply(&plugin.id, reply).map_err(|source| AdaptError::Merge {
                            event,
                            subject: id.clone(),
                            source,
                        })
                    });
                merged.or_else(|e| {
                    plugin.counters.record_refusal(&e);
                    context.refuse(e)
                })?;
            }
        }
        let _permit = self.core.permit_to_commit(tickets.commit).await;
        Ok(commit(merge.finish()).await)
    }

    /// Notifies the plugins of the stop of a container, then calls `commit` with the updates of
    /// other containers that they request. For order, commit and dropped futures see
    /// [`Adaptation::create_container`].
    pub async fn stop_container<R>(
        &self,
        request: StopContainerRequest,
        commit: impl AsyncFnOnce(StopOutcome) -> R,
    ) -> R {
        let tickets = self.core.pipeline.enter(Event::STOP_CONTAINER);
        self.stop_with(tickets, request, commit).await
    }

    /// Delivers a stop to the plugins of `tickets`, then calls `commit` with the merged updates.
    pub(crate) async fn stop_with<R>(
        &self,
        tickets: RequestTickets,
        request: StopContainerRequest,
        commit: impl AsyncFnOnce(StopOutcome) -> R,
    ) -> R {
        let event = Event::STOP_CONTAINER;
        let mut merge = UpdatesMerge::new();
        let mut failures = Vec::new();
        let request = EncodedRequest::new(request);
        for ticket in tickets.plugins {
            let (plugin, Some(permit)) = ticket.turn().await else { continue };
            let merged = match plugin.call(permit, &request).await {
                Ok(Some(reply)) => {
                    plugin.counters.record_requests(reply.update.len(), 0);
                    log_updates(&plugin.id, &reply.update, &[]);
                    match plugin.reply_check().check_updates(None, &reply.update, &[]) {
                        Ok(()) => merge.reply(&plugin.id, reply.update).map_err(|source| {
                            let subject = request.subject().to_owned();
                            AdaptError::Merge { event, subject, source }
                        }),
                        Err(denied) => Err(AdaptError::Denied { event, denied }),
                    }
                }
                Ok(None) => Ok(()),
                Err(e) => Err(e),
            };
            if let Err(e) = merged {
                plugin.counters.record_refusal(&e);
                warn!("{e}");
                failures.push(e);
            }
        }
        let _permit = self.core.permit_to_commit(tickets.commit).await;
        commit(StopOutcome { updates: merge.finish(), failures }).await
    }
}
