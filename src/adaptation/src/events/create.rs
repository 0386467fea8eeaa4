//! `CreateContainer`: adjustment by one plugin after the other, validation, commit.

use nri_api::proto::{Container, ContainerAdjustment, CreateContainerRequest, Event, Hooks};
use nri_api::{HOOK_ENVIRONMENT, MAX_CONTAINER, PluginId};
use nri_merge::{CreateMerge, CreateOutcome, validator};
use protobuf::Message;
use std::sync::Arc;

use crate::adaptation::Adaptation;
use crate::config::AdaptationConfig;
use crate::error::AdaptError;
use crate::events::reply_log::log_creation;
use crate::events::turn::Turn;
use crate::events::withhold::withhold_creation;
use crate::order::context::RequestContext;
use crate::order::pipeline::RequestTickets;
use crate::order::slot::PluginTicket;
use crate::plugin::handle::Plugin;
use crate::plugin::queue::Ticket;
use crate::plugin::request::{CreateRequests, EncodedRequest};
use crate::plugin::trace::inherited;
use crate::policy::plugin_policy::PluginPolicy;
use crate::policy::scope::Subject;

/// Name of the built-in validator in errors.
const DEFAULT_VALIDATOR: &str = "default-validator";

impl Adaptation {
    /// Calls the plugins for the creation of a container, then `prepare` with the merged outcome,
    /// then `commit` with the result of `prepare`.
    ///
    /// `commit` performs the effects: it records the container, updates others and writes
    /// `config.json`. Commits run one at a time in the order in which their requests entered the
    /// pipeline. A request enters when this future is first polled; while a reload relaunches
    /// plugins, the request enters once those plugins are active. While a plugin that has ended is
    /// about to be launched again, it enters once that plugin has been launched, or after the
    /// plugin's request timeout. The snapshot of a new plugin is
    /// taken between two commits. A commit must not wait for another request. Work without effects
    /// belongs in `prepare`, which runs while other requests commit.
    ///
    /// A dropped future cancels the request: nothing is committed, though plugins may have received
    /// the request already. After an error nothing is committed either.
    /// [`Adaptation::roll_back_creation`] notifies the plugins that received the request.
    ///
    /// # Errors
    /// If a plugin or a validator refuses or fails, a plugin requests a change that its policy
    /// denies, replies contradict one another, or a required plugin is not active.
    pub async fn create_container<P, R>(
        &self,
        request: CreateContainerRequest,
        context: &RequestContext,
        prepare: impl AsyncFnOnce(CreateOutcome) -> P,
        commit: impl AsyncFnOnce(P) -> R,
    ) -> Result<R, AdaptError> {
        let event = Event::CREATE_CONTAINER;
        let subject = self.core.subject_of(&request, context.origin());
        let subject = subject.as_ref();
        let container = request.container.unwrap_or_default();
        let id = container.id.clone();
        self.core.wait_for_relaunches(&id, subject).await;
        let tickets = self.core.pipeline.enter_when_open(event, subject).await;
        let RequestTickets { plugins: entries, validation, commit: commit_ticket } = tickets;
        let mut merge = CreateMerge::new(request.pod.unwrap_or_default(), container);
        let mut requests = CreateRequests::new(&merge);
        let sessions: Vec<_> = entries.iter().flat_map(PluginTicket::sessions).cloned().collect();
        self.check_required(&sessions, &id, subject).or_else(|e| context.refuse(e))?;
        let config = self.core.config();
        let is_expected = |id: &PluginId| {
            let is_called = sessions.iter().any(|plugin| plugin.id == *id);
            !is_called && config.policy(id).withholds(subject).is_none()
        };
        context.record_missed(self.core.registry.absent(|id| !is_expected(id)));
        config.assumed.iter().for_each(|id| merge.consulted(id));
        let mut time = self.core.request_time(event, &id, Some(context));
        let mut plugins = Vec::with_capacity(entries.len());
        for entry in entries {
            let (plugin, turn) = self.core.turn(entry, &mut time, context, subject).await?;
            plugins.push(plugin.clone());
            let permit = match turn {
                Turn::Call(permit) => permit,
                Turn::Unsubscribed => {
                    if !plugin.is_late() {
                        merge.consulted(&plugin.id);
                    }
                    continue;
                }
                Turn::Skipped => continue,
            };
            let policy = plugin.policy.get();
            let withheld = policy.withholds(subject);
            if let Some(skipped) = plugin.skipped_by_budget(requests.source()) {
                if withheld.is_none() {
                    context.record_missed([skipped]);
                }
                continue;
            }
            let request = requests.next(&merge);
            let reply = time.call(&plugin, withheld, permit, &request).await;
            if matches!(reply, Ok(None)) && withheld.is_none() {
                context.record_skipped(&plugin);
            }
            if let Some(mut reply) = context.record_reply(&plugin, withheld, reply)? {
                plugin.counters.record_requests(reply.update.len(), reply.evict.len());
                log_creation(&plugin.id, (&id, &merge.pod().id), &reply);
                if let Some(adjust) = reply.adjust.as_mut() {
                    set_hook_environments(adjust);
                }
                let permitted = plugin.reply_check().check_creation(&id, &reply);
                let rules = (&*policy, withheld);
                let permitted = permitted.and_then(|()| {
                    let draft = (&merge, context);
                    withhold_creation(&self.core, &plugin, rules, draft, &mut reply)
                });
                let is_adjusted = reply.adjust.is_some();
                if is_adjusted {
                    requests.adjusted();
                }
                let merged = permitted
                    .map_err(|denied| AdaptError::Denied { event, denied })
                    .and_then(|()| {
                        merge.reply(&plugin.id, reply).map_err(|source| AdaptError::Merge {
                            event,
                            subject: id.clone(),
                            source,
                        })
                    })
                    .and_then(|()| match is_adjusted {
                        true => check_size(&plugin.id, merge.container()),
                        false => Ok(()),
                    });
                merged.or_else(|e| {
                    plugin.counters.record_refusal(&e);
                    context.refuse_unless(&plugin, withheld, e)
                })?;
            }
        }
        // Checked again, since a plugin may have closed meanwhile, or was skipped.
        let missed = context.missed();
        let was_called = |id: &PluginId| missed.iter().all(|missed| missed.plugin != *id);
        let called: Vec<_> = sessions.iter().filter(|p| was_called(&p.id)).cloned().collect();
        self.check_required(&called, &id, subject).or_else(|e| context.refuse(e))?;
        let outcome = merge.finish();
        self.validate((&plugins, subject), &outcome, context, validation).await?;
        let prepared = prepare(outcome).await;
        let _permit = self.core.permit_to_commit(commit_ticket).await;
        Ok(commit(prepared).await)
    }

    /// Fails if a policy requires a plugin and no connected plugin matches the policy.
    fn check_required(
        &self,
        plugins: &[Arc<Plugin>],
        container: &str,
        subject: Option<&Subject>,
    ) -> Result<(), AdaptError> {
        match missing_required(&self.core.config(), plugins, subject).next() {
            Some(policy) => Err(AdaptError::RequiredMissing {
                plugin: policy.plugin.clone(),
                why: self.core.registry.absent(|_| false).into_iter().find_map(|absent| {
                    let is_named = policy.matches(&absent.plugin) && !policy.is_for_all();
                    is_named.then_some(absent.why)
                }),
                container: container.to_owned(),
            }),
            None => Ok(()),
        }
    }

    /// Returns the names of the policies that require a plugin while no connected plugin matches
    /// them: a creation fails because of the first of them that has the container in its scope.
    pub fn missing_required(&self) -> Vec<String> {
        let config = self.core.config();
        let plugins = self.core.pipeline.plugins();
        missing_required(&config, &plugins, None).map(|policy| policy.plugin.clone()).collect()
    }

    /// Calls all validators in parallel. Of several rejections the first in call order is returned.
    /// A missing reply counts as a rejection, unless the validator's policy says otherwise. The
    /// verdict of a validator whose policy withholds it has no effect.
    async fn validate(
        &self,
        (plugins, subject): (&[Arc<Plugin>], Option<&Subject>),
        outcome: &CreateOutcome,
        context: &RequestContext,
        ticket: Ticket,
    ) -> Result<(), AdaptError> {
        let config = self.core.config();
        let default_validator = config.default_validator.as_ref();
        // A validator that was not synchronized in time counts as one that is not connected.
        let (late, validators): (Vec<_>, Vec<_>) = plugins
            .iter()
            .filter(|p| p.mask.contains(Event::VALIDATE_CONTAINER_ADJUSTMENT))
            .cloned()
            .partition(|p| !p.is_admitted() && !p.is_closed());
        let withheld = |plugin: &Plugin| plugin.policy.get().withholds(subject);
        let missed = late.iter().filter(|plugin| withheld(plugin).is_none());
        missed.for_each(|plugin| context.record_skipped(plugin));
        if default_validator.is_none() && validators.is_empty() {
            return Ok(());
        }
        let _permit = ticket.permit().await;
        let container = &outcome.container.id;
        let rejected = |validator: String, reason: String| AdaptError::Rejected {
            validator,
            container: container.clone(),
            reason,
        };
        let request = outcome.validation();
        if let Some(rules) = default_validator {
            let rules = config.validator_rules(rules, subject);
            let verdict = validator::validate(&rules, &request);
            let verdict = verdict.map_err(|e| rejected(DEFAULT_VALIDATOR.into(), e.to_string()));
            verdict.or_else(|e| context.refuse(e))?;
        }
        let request = EncodedRequest::new(request);
        let calls: Vec<_> = validators
            .into_iter()
            .map(|plugin| {
                let request = request.clone();
                tokio::spawn(inherited(
                    async move { (plugin.call_validator(&request).await, plugin) },
                ))
            })
            .collect();
        // All verdicts are awaited before a rejection is returned: the caller then rolls back, and
        // a validator must not receive the rollback before the creation.
        let mut verdicts = Vec::new();
        for call in calls {
            verdicts.push(call.await.map_err(|e| rejected("(unknown)".into(), e.to_string())));
        }
        for (reply, plugin) in verdicts.iter().flatten() {
            context.record_reached(plugin, reply);
            match reply {
                Ok(None) if withheld(plugin).is_some() => {}
                Ok(None) => context.record_skipped(plugin),
                Ok(Some(reply)) if reply.reject => plugin.counters.record_rejection(),
                Ok(Some(_)) | Err(_) => {}
            }
        }
        for verdict in verdicts {
            let (reply, plugin) = verdict?;
            let verdict = reply.and_then(|reply| {
                let Some(reply) = reply else { return Ok(()) };
                let reason =
                    if reply.reason.is_empty() { "no reason given".into() } else { reply.reason };
                if reply.reject { Err(rejected(plugin.id.to_string(), reason)) } else { Ok(()) }
            });
            verdict.or_else(|e| context.refuse_unless(&plugin, withheld(&plugin), e))?;
        }
        Ok(())
    }
}

/// Checks that the container, as a plugin has adjusted it, fits a message: plugins that connect
/// later would not know of it otherwise.
fn check_size(plugin: &PluginId, container: &Container) -> Result<(), AdaptError> {
    let size = container.compute_size();
    if size <= MAX_CONTAINER as u64 {
        return Ok(());
    }
    let (plugin, container) = (plugin.clone(), container.id.clone());
    Err(AdaptError::Enlarged { plugin, container, size })
}

/// Returns the policies that require a plugin of this container while none of `plugins` matches
/// them.
pub(crate) fn missing_required<'a>(
    config: &'a AdaptationConfig,
    plugins: &[Arc<Plugin>],
    subject: Option<&Subject>,
) -> impl Iterator<Item = &'a PluginPolicy> {
    config.policies.iter().filter(move |policy| {
        let serves = |p: &Plugin| p.is_connected() && !p.is_late() && policy.matches(&p.id);
        let is_required = policy.required && policy.withholds(subject).is_none();
        is_required && !plugins.iter().any(|p| serves(p))
    })
}

/// Gives [`HOOK_ENVIRONMENT`] to the hooks for which the plugin names no variable.
fn set_hook_environments(adjust: &mut ContainerAdjustment) {
    let Some(hooks) = adjust.hooks.as_mut() else { return };
    let Hooks {
        prestart,
        create_runtime,
        create_container,
        start_container,
        poststart,
        poststop,
        ..
    } = hooks;
    for kind in [prestart, create_runtime, create_container, start_container, poststart, poststop] {
        for hook in kind.iter_mut().filter(|hook| hook.env.is_empty()) {
            hook.env.push(HOOK_ENVIRONMENT.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_api::proto::Hook;

    /// What containers have of it: `integration/tests/real/values.rs`.
    #[test]
    fn a_hook_of_any_kind_without_variables_gets_a_path() {
        let hook = |env: &[&str]| Hook {
            path: "/h".into(),
            env: env.iter().map(|&variable| variable.to_owned()).collect(),
            ..Hook::default()
        };
        let with = |env: &[&str]| {
            let kind = || vec![hook(env), hook(&["A=b"]), hook(&[""])];
            let hooks = Hooks {
                prestart: kind(),
                create_runtime: kind(),
                create_container: kind(),
                start_container: kind(),
                poststart: kind(),
                poststop: kind(),
                ..Hooks::default()
            };
            ContainerAdjustment { hooks: Some(hooks).into(), ..ContainerAdjustment::default() }
        };
        let mut adjust = with(&[]);
        set_hook_environments(&mut adjust);
        assert_eq!(adjust, with(&[HOOK_ENVIRONMENT]));
        let mut without_hooks = ContainerAdjustment::default();
        set_hook_environments(&mut without_hooks);
        assert_eq!(without_hooks, ContainerAdjustment::default());
    }
}
