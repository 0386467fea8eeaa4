//! `UpdateContainer` and `StopContainer`: events whose replies update containers.

use nri_api::proto::{Event, StopContainerRequest, UpdateContainerRequest};
use nri_merge::{UpdateMerge, UpdateOutcome, UpdatesMerge, UpdatesOutcome};
use std::sync::Arc;
use tracing::{debug, warn};

use crate::adaptation::Adaptation;
use crate::error::AdaptError;
use crate::events::create::missing_required;
use crate::events::reply_log::log_updates;
use crate::events::turn::Turn;
use crate::events::withhold::withhold_updates;
use crate::order::context::RequestContext;
use crate::order::pipeline::RequestTickets;
use crate::order::slot::PluginTicket;
use crate::plugin::handle::Plugin;
use crate::plugin::request::{EncodedRequest, UpdateRequests};
use crate::plugin::status::AbsentPlugin;
use crate::policy::scope::Subject;

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
    /// If a plugin refuses, replies contradict one another, or a required plugin is not active that
    /// owns what the update changes.
    pub async fn update_container<R>(
        &self,
        request: UpdateContainerRequest,
        context: &RequestContext,
        commit: impl AsyncFnOnce(UpdateOutcome) -> R,
    ) -> Result<R, AdaptError> {
        let event = Event::UPDATE_CONTAINER;
        let subject = self.core.subject_of(&request, context.origin());
        if !context.owned().is_empty() {
            // A plugin that is launched again can decide in a moment.
            let id = request.container.as_ref().map_or("", |container| &container.id);
            self.core.wait_for_relaunches(id, subject.as_ref()).await;
        }
        let tickets = self.core.pipeline.enter_when_open(event, subject.as_ref()).await;
        let container = request.container.unwrap_or_default();
        let id = container.id.clone();
        let resources = request.linux_resources.unwrap_or_default();
        let mut merge = UpdateMerge::new(request.pod.unwrap_or_default(), container, resources);
        let requests = UpdateRequests::new(&merge);
        let mut sessions: Vec<_> =
            tickets.plugins.iter().flat_map(PluginTicket::sessions).cloned().collect();
        let check_owners = |sessions: &[Arc<Plugin>]| {
            let checked = self.check_owners(sessions, &id, context, subject.as_ref());
            checked.or_else(|e| context.refuse(e))
        };
        check_owners(&sessions)?;
        let mut time = self.core.request_time(event, &id, Some(context));
        for ticket in tickets.plugins {
            let turn = self.core.turn(ticket, &mut time, context, subject.as_ref()).await?;
            let (plugin, Turn::Call(permit)) = turn else { continue };
            let policy = plugin.policy.get();
            let withheld = policy.withholds(subject.as_ref());
            if let Some(AbsentPlugin { plugin, why }) = plugin.skipped_by_budget(requests.source())
            {
                debug!(%plugin, container = id, event = ?event, "plugin skipped: {why}");
                continue;
            }
            let request = requests.next(&merge);
            let reply = time.call(&plugin, withheld, permit, &request).await;
            if matches!(reply, Ok(None)) {
                sessions.retain(|session| session.id != plugin.id);
            }
            if let Some(mut reply) = context.record_reply(&plugin, withheld, reply)? {
                plugin.counters.record_requests(reply.update.len(), reply.evict.len());
                log_updates(&plugin.id, &reply.update, &reply.evict);
                let check = plugin.reply_check();
                let permitted = check.check_updates(Some(&id), &reply.update, &reply.evict);
                let (own, updates) = (Some((&*id, withheld)), &mut reply.update);
                let (manager, rules) = (&*self.core.manager, (&plugin.id, &*policy));
                let others = withhold_updates(manager, rules, own, updates, &mut reply.evict);
                let depends = || match withheld {
                    Some(_) => Ok(()),
                    None => others.denied(&plugin.id, &policy),
                };
                let merged = permitted
                    .and_then(|()| depends())
                    .map_err(|denied| AdaptError::Denied { event, denied })
                    .and_then(|()| {
                        let conflict = |source| {
                            let subject = id.clone();
                            AdaptError::Merge { event, subject, source }
                        };
                        if withheld.is_some() {
                            // A conflict is a refusal without effect.
                            let others = others.into_update_reply();
                            merge.clone().reply(&plugin.id, others).map_err(conflict)?;
                        }
                        merge.reply(&plugin.id, reply).map_err(conflict)
                    });
                merged.or_else(|e| {
                    plugin.counters.record_refusal(&e);
                    context.refuse_unless(&plugin, withheld, e)
                })?;
            }
        }
        // Checked again: a plugin may have closed meanwhile, or was skipped.
        check_owners(&sessions)?;
        let _permit = self.core.permit_to_commit(tickets.commit).await;
        Ok(commit(merge.finish()).await)
    }

    /// Fails if a policy requires a plugin that owns what the update changes, and no connected
    /// plugin matches the policy: what the plugin has decided would be undone without it.
    fn check_owners(
        &self,
        plugins: &[Arc<Plugin>],
        container: &str,
        context: &RequestContext,
        subject: Option<&Subject>,
    ) -> Result<(), AdaptError> {
        let config = self.core.config();
        let owned_by_missing = missing_required(&config, plugins, subject)
            .find_map(|policy| context.owned().iter().find(|(_, owner)| policy.matches(owner)));
        let Some((field, owner)) = owned_by_missing else { return Ok(()) };
        let mut absent = self.core.registry.absent(|_| false).into_iter();
        Err(AdaptError::RequiredOwner {
            plugin: owner.clone(),
            why: absent.find_map(|absent| (absent.plugin == *owner).then_some(absent.why)),
            field: field.clone(),
            container: container.to_owned(),
        })
    }

    /// Notifies the plugins of the stop of a container, then calls `commit` with the updates of
    /// other containers that they request. For order, commit and dropped futures see
    /// [`Adaptation::create_container`].
    pub async fn stop_container<R>(
        &self,
        request: StopContainerRequest,
        commit: impl AsyncFnOnce(StopOutcome) -> R,
    ) -> R {
        let subject = self.core.subject_of(&request, None);
        let tickets = self.core.pipeline.enter(Event::STOP_CONTAINER, subject.as_ref());
        self.stop_with(tickets, request, None, commit).await
    }

    /// Delivers a stop to the plugins of `tickets`, then calls `commit` with the merged updates.
    /// `context`: of the request that the stop undoes, for which the caller still waits.
    pub(crate) async fn stop_with<R>(
        &self,
        tickets: RequestTickets,
        request: StopContainerRequest,
        context: Option<&RequestContext>,
        commit: impl AsyncFnOnce(StopOutcome) -> R,
    ) -> R {
        let event = Event::STOP_CONTAINER;
        let mut merge = UpdatesMerge::new();
        let mut failures = Vec::new();
        let request = EncodedRequest::new(request);
        let mut time = self.core.request_time(event, request.subject(), context);
        for ticket in tickets.plugins {
            if ticket.is_subscribed() && !time.waits_for(ticket.session()) {
                // The plugin gets the event, and what it requests in its reply has no effect.
                self.deliver_encoded(vec![ticket], &request);
                continue;
            }
            let (plugin, Some(permit)) = ticket.turn().await else { continue };
            let withheld = plugin.policy.get().withholds(None);
            let merged = match time.call(&plugin, withheld, permit, &request).await {
                Ok(Some(mut reply)) => {
                    plugin.counters.record_requests(reply.update.len(), 0);
                    log_updates(&plugin.id, &reply.update, &[]);
                    let permitted = plugin.reply_check().check_updates(None, &reply.update, &[]);
                    let (policy, updates) = (plugin.policy.get(), &mut reply.update);
                    let (manager, rules) = (&*self.core.manager, (&plugin.id, &*policy));
                    withhold_updates(manager, rules, None, updates, &mut vec![]);
                    match permitted {
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
