//! The two other requests whose answers change something: the update of a container, and its stop.

use nri_api::proto::{Event, StopContainerRequest, UpdateContainerRequest};
use nri_merge::{UpdateMerge, UpdateOutcome, UpdatesMerge, UpdatesOutcome};
use tracing::warn;

use crate::asking::RequestContext;
use crate::line::{Passage, Stop};
use crate::{AdaptError, Adaptation};

/// What the plugins made of the stop of a container.
#[derive(Debug)]
pub struct StopOutcome {
    /// Updates of other containers.
    pub updates: UpdatesOutcome,
    /// What went wrong. The container has stopped whatever a plugin says, so the replies of the
    /// others hold.
    pub failures: Vec<AdaptError>,
}

impl Adaptation {
    /// Asks the plugins about an update that an engine wants, and calls `commit` with the outcome.
    /// For order, commit and dropped futures see [`Adaptation::create_container`].
    ///
    /// # Errors
    /// If a plugin refuses or replies contradict.
    pub async fn update_container<R>(
        &self,
        request: UpdateContainerRequest,
        asking: &RequestContext,
        commit: impl AsyncFnOnce(UpdateOutcome) -> R,
    ) -> Result<R, AdaptError> {
        let event = Event::UPDATE_CONTAINER;
        let passage = self.inner.line.enter_open(event).await;
        let container = request.container.unwrap_or_default();
        let id = container.id.clone();
        let resources = request.linux_resources.unwrap_or_default();
        let mut merge = UpdateMerge::new(request.pod.unwrap_or_default(), container, resources);
        for Stop { plugin, place } in passage.stops {
            let Some(place) = place else { continue };
            let turn = place.turn().await;
            let answer = plugin.ask(turn, merge.request()).await;
            if let Some(reply) = asking.note(&plugin, answer)? {
                let permitted = plugin.permit().updates(Some(&id), &reply.update, &reply.evict);
                let taken = permitted
                    .map_err(|denied| AdaptError::Denied { event, denied })
                    .and_then(|()| {
                        let merged = merge.reply(&plugin.id, reply);
                        merged.map_err(|source| AdaptError::Merge {
                            event,
                            subject: id.clone(),
                            source,
                        })
                    });
                taken.or_else(|e| asking.refuse(e))?;
            }
        }
        let _turn = passage.commit.turn().await;
        Ok(commit(merge.finish()).await)
    }

    /// Tells the plugins that a container stopped, and calls `commit` with the updates of other
    /// containers that they want. For order, commit and dropped futures see
    /// [`Adaptation::create_container`].
    pub async fn stop_container<R>(
        &self,
        request: StopContainerRequest,
        commit: impl AsyncFnOnce(StopOutcome) -> R,
    ) -> R {
        let passage = self.inner.line.enter(Event::STOP_CONTAINER);
        self.stop_along(passage, request, commit).await
    }

    pub(crate) async fn stop_along<R>(
        &self,
        passage: Passage,
        request: StopContainerRequest,
        commit: impl AsyncFnOnce(StopOutcome) -> R,
    ) -> R {
        let event = Event::STOP_CONTAINER;
        let mut merge = UpdatesMerge::new();
        let mut failures = Vec::new();
        for Stop { plugin, place } in passage.stops {
            let Some(place) = place else { continue };
            let turn = place.turn().await;
            let merged = match plugin.ask(turn, request.clone()).await {
                Ok(Some(reply)) => match plugin.permit().updates(None, &reply.update, &[]) {
                    Ok(()) => merge.reply(&plugin.id, reply.update).map_err(|source| {
                        let subject = request.container.id.clone();
                        AdaptError::Merge { event, subject, source }
                    }),
                    Err(denied) => Err(AdaptError::Denied { event, denied }),
                },
                Ok(None) => Ok(()),
                Err(e) => Err(e),
            };
            if let Err(e) = merged {
                warn!("{e}");
                failures.push(e);
            }
        }
        let _turn = passage.commit.turn().await;
        commit(StopOutcome { updates: merge.finish(), failures }).await
    }
}
