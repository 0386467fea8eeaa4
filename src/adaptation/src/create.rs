//! The creation of a container: adjusted by plugin after plugin, judged, committed.

use nri_api::proto::{CreateContainerRequest, Event};
use nri_merge::{CreateMerge, CreateOutcome, validator};
use std::sync::Arc;

use crate::asking::RequestContext;
use crate::line::{Passage, Stop};
use crate::plugin::Plugin;
use crate::station::Place;
use crate::{AdaptError, Adaptation};

/// How the built-in validator is called in errors.
const DEFAULT_VALIDATOR: &str = "default-validator";

impl Adaptation {
    /// Asks the plugins about a container to be created, calls `prepare` with the outcome, and
    /// `commit` with what that made of it, at this request's turn.
    ///
    /// What takes its time and changes nothing belongs into `prepare`: others commit meanwhile.
    ///
    /// The commit performs the effects: record the container, update the others, write its
    /// document. Commits run one at a time, in the order in which their requests entered, which is
    /// when this future is first polled, or when a reload that relaunches plugins is over; the
    /// host's snapshot for a new plugin is taken between two of them. A commit must not wait for
    /// another request.
    ///
    /// A future that is dropped gives the request up: nothing is committed, though plugins may have
    /// been asked already. The same holds for errors; [`Adaptation::roll_back_creation`] tells
    /// those who were.
    ///
    /// # Errors
    /// If a plugin or validator refuses, replies contradict, or a plugin is missing that the
    /// policies require.
    pub async fn create_container<P, R>(
        &self,
        request: CreateContainerRequest,
        asking: &RequestContext,
        prepare: impl AsyncFnOnce(CreateOutcome) -> P,
        commit: impl AsyncFnOnce(P) -> R,
    ) -> Result<R, AdaptError> {
        let passage = self.inner.line.enter_open(Event::CREATE_CONTAINER).await;
        let Passage { stops, validation, commit: committing } = passage;
        let container = request.container.unwrap_or_default();
        let id = container.id.clone();
        let mut merge = CreateMerge::new(request.pod.unwrap_or_default(), container);
        let all: Vec<_> = stops.iter().map(|s| s.plugin.clone()).collect();
        self.check_required(&all, &id).or_else(|e| asking.refuse(e))?;
        for Stop { plugin, place } in stops {
            let Some(place) = place else {
                merge.consulted(&plugin.id);
                continue;
            };
            let turn = place.turn().await;
            let answer = plugin.ask(turn, merge.request()).await;
            if let Some(reply) = asking.note(&plugin, answer)? {
                let taken = plugin
                    .permit()
                    .creation(&id, &reply)
                    .map_err(|denied| AdaptError::Denied { event: Event::CREATE_CONTAINER, denied })
                    .and_then(|()| {
                        merge.reply(&plugin.id, reply).map_err(|source| AdaptError::Merge {
                            event: Event::CREATE_CONTAINER,
                            subject: id.clone(),
                            source,
                        })
                    });
                taken.or_else(|e| asking.refuse(e))?;
            }
        }
        // Once more: one may have gone in the meantime.
        self.check_required(&all, &id).or_else(|e| asking.refuse(e))?;
        let outcome = merge.finish();
        self.validate(&all, &outcome, asking, validation).await?;
        let prepared = prepare(outcome).await;
        let _turn = committing.turn().await;
        Ok(commit(prepared).await)
    }

    /// Fails if no plugin that is still there satisfies some policy that requires one.
    fn check_required(&self, plugins: &[Arc<Plugin>], container: &str) -> Result<(), AdaptError> {
        let config = self.inner.config();
        let required = config.policies.iter().filter(|p| p.required);
        let missing = |policy: &&crate::PluginPolicy| {
            !plugins.iter().any(|p| !p.is_ended() && policy.matches(&p.id))
        };
        match required.into_iter().find(missing) {
            Some(policy) => Err(AdaptError::RequiredMissing {
                plugin: policy.plugin.clone(),
                container: container.to_owned(),
            }),
            None => Ok(()),
        }
    }

    /// Lets all validators judge at the same time. Of several rejections the first in the order of
    /// plugins is told. A validator that cannot be asked rejects, whatever its policy.
    async fn validate(
        &self,
        plugins: &[Arc<Plugin>],
        outcome: &CreateOutcome,
        asking: &RequestContext,
        place: Place,
    ) -> Result<(), AdaptError> {
        let config = self.inner.config();
        let config = config.default_validator.as_ref();
        let validators: Vec<_> = plugins
            .iter()
            .filter(|p| p.mask.contains(Event::VALIDATE_CONTAINER_ADJUSTMENT))
            .cloned()
            .collect();
        if config.is_none() && validators.is_empty() {
            return Ok(());
        }
        let _turn = place.turn().await;
        let container = &outcome.container.id;
        let rejected = |validator: String, reason: String| AdaptError::Rejected {
            validator,
            container: container.clone(),
            reason,
        };
        let request = outcome.validation();
        if let Some(config) = config {
            let judged = validator::validate(config, &request);
            let judged = judged.map_err(|e| rejected(DEFAULT_VALIDATOR.into(), e.to_string()));
            judged.or_else(|e| asking.refuse(e))?;
        }
        let judging: Vec<_> = validators
            .into_iter()
            .map(|plugin| {
                let request = request.clone();
                tokio::spawn(async move { (plugin.ask_strictly(request).await, plugin) })
            })
            .collect();
        // All of them, before anybody hears of the end.
        let mut judgments = Vec::new();
        for judgment in judging {
            judgments.push(judgment.await.map_err(|e| rejected("(unknown)".into(), e.to_string())));
        }
        for (reply, plugin) in judgments.iter().flatten() {
            asking.reach(plugin, reply);
        }
        for judgment in judgments {
            let (reply, plugin) = judgment?;
            let judged = reply.and_then(|reply| {
                let reason =
                    if reply.reason.is_empty() { "no reason given".into() } else { reply.reason };
                if reply.reject { Err(rejected(plugin.id.to_string(), reason)) } else { Ok(()) }
            });
            judged.or_else(|e| asking.refuse(e))?;
        }
        Ok(())
    }
}
