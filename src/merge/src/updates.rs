//! Merge of updates and evictions of existing containers. [`crate::CreateMerge`],
//! [`crate::UpdateMerge`] and [`UpdatesMerge`] use it.

use crate::error::MergeError;
use crate::outcome::{FailedUpdate, Ignored, UpdatesOutcome};
use crate::owners::Owners;
use crate::resources::groups as resources;
use crate::{evictions, ignored};
use nri_api::PluginId;
use nri_api::proto::{ContainerEviction, ContainerUpdate, LinuxResources};
use std::collections::{BTreeMap, HashMap};

/// Merge of updates that plugins request without an update by an engine: in replies to
/// `Synchronize` and `StopContainer`, and in unsolicited requests.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UpdatesMerge {
    collected: Collected,
}

impl UpdatesMerge {
    /// Starts without updates.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that `plugin` was consulted, even if it does not reply.
    pub fn consulted(&mut self, plugin: &PluginId) {
        self.collected.consult(plugin);
    }

    /// Merges one plugin's updates.
    ///
    /// # Errors
    /// If an update conflicts with an earlier update and does not set `ignore_failure`. Nothing of
    /// the reply is merged then.
    pub fn reply(
        &mut self,
        plugin: &PluginId,
        updates: Vec<ContainerUpdate>,
    ) -> Result<(), MergeError> {
        let plan = self.collected.plan(plugin, updates, Vec::new())?;
        self.collected.apply(plugin, plan);
        Ok(())
    }

    /// Merges one plugin's evictions.
    pub fn evict(&mut self, plugin: &PluginId, evictions: Vec<ContainerEviction>) {
        self.collected.consult(plugin);
        let Collected { evictions: all, evictors, .. } = &mut self.collected;
        evictions::add(all, evictors, plugin, evictions);
    }

    /// Returns the outcome.
    pub fn finish(self) -> UpdatesOutcome {
        let Collected { owners, updates, evictions, evictors, failed, ignored, consulted, .. } =
            self.collected;
        let owners = owners.to_proto();
        UpdatesOutcome { updates, evictions, evictors, owners, consulted, failed, ignored }
    }
}

/// Updates, evictions and claims of the replies so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Collected {
    pub(crate) owners: Owners,
    pub(crate) updates: Vec<ContainerUpdate>,
    pub(crate) evictions: Vec<ContainerEviction>,
    pub(crate) evictors: BTreeMap<String, PluginId>,
    pub(crate) failed: Vec<FailedUpdate>,
    pub(crate) ignored: Vec<Ignored>,
    pub(crate) consulted: Vec<PluginId>,
    /// Container whose update the engine requests, and the requested resources.
    pub(crate) base: Option<(String, LinuxResources)>,
    /// Container that is being created, and can neither be updated nor evicted.
    pub(crate) created: Option<String>,
}

/// A reply whose claims succeeded, ready to be merged.
pub(crate) struct Plan {
    updates: Vec<ContainerUpdate>,
    evictions: Vec<ContainerEviction>,
    failed: Vec<FailedUpdate>,
}

impl Collected {
    pub(crate) fn consult(&mut self, plugin: &PluginId) {
        if !self.consulted.contains(plugin) {
            self.consulted.push(plugin.clone());
        }
    }

    /// Claims everything that the updates set. On an error all claims since the last merged reply
    /// are withdrawn.
    pub(crate) fn plan(
        &mut self,
        plugin: &PluginId,
        updates: Vec<ContainerUpdate>,
        evictions: Vec<ContainerEviction>,
    ) -> Result<Plan, MergeError> {
        let mut plan = Plan { updates: Vec::new(), evictions, failed: Vec::new() };
        let outcome = self.claim(plugin, updates, &mut plan);
        if outcome.is_err() {
            self.owners.rollback_all();
        }
        outcome.map(|()| plan)
    }

    fn claim(
        &mut self,
        plugin: &PluginId,
        updates: Vec<ContainerUpdate>,
        plan: &mut Plan,
    ) -> Result<(), MergeError> {
        for update in updates {
            if self.created.as_deref() == Some(&update.container_id) {
                return Err(MergeError::UpdateOfCreated {
                    plugin: plugin.clone(),
                    container: update.container_id,
                });
            }
            let mark = self.owners.mark();
            let mut claims = self.owners.claims(plugin, &update.container_id);
            match resources::claim_all(&update.linux.resources, &mut claims) {
                Ok(()) => plan.updates.push(update),
                Err(error) if update.ignore_failure => {
                    self.owners.rollback(mark);
                    plan.failed.push(FailedUpdate { plugin: plugin.clone(), update, error });
                }
                Err(error) => return Err(error),
            }
        }
        match plan.evictions.iter().find(|e| self.created.as_deref() == Some(&e.container_id)) {
            None => Ok(()),
            Some(e) => Err(MergeError::EvictionOfCreated {
                plugin: plugin.clone(),
                container: e.container_id.clone(),
            }),
        }
    }

    /// Merges a planned reply, and makes its claims final.
    pub(crate) fn apply(&mut self, plugin: &PluginId, plan: Plan) {
        self.owners.commit();
        self.consult(plugin);
        self.failed.extend(plan.failed);
        evictions::add(&mut self.evictions, &mut self.evictors, plugin, plan.evictions);
        for update in &plan.updates {
            self.record_ignored(plugin, &update.container_id, ignored::in_update(update));
        }
        self.merge(plan.updates);
    }

    /// Records parts of a reply that have no effect, up to the limit per plugin.
    pub(crate) fn record_ignored(
        &mut self,
        plugin: &PluginId,
        container: &str,
        paths: Vec<String>,
    ) {
        if paths.is_empty() {
            return;
        }
        let recorded = self.ignored.iter().filter(|i| i.plugin == *plugin).count();
        let room = ignored::MAX_PATHS.saturating_sub(recorded);
        self.ignored.extend(paths.into_iter().take(room).map(|what| Ignored {
            plugin: plugin.clone(),
            container: container.to_owned(),
            what,
        }));
    }

    /// Merges the updates of one reply: first the updates of the same container with each other,
    /// then the results with the updates of earlier replies.
    fn merge(&mut self, updates: Vec<ContainerUpdate>) {
        let mut changes: Vec<ContainerUpdate> = Vec::new();
        let mut positions = HashMap::new();
        for mut update in updates {
            let Some(change) =
                positions.get(&update.container_id).map(|at: &usize| &mut changes[*at])
            else {
                positions.insert(update.container_id.clone(), changes.len());
                changes.push(update);
                continue;
            };
            change.ignore_failure &= update.ignore_failure;
            if let Some(more) = update.linux.mut_or_insert_default().resources.take() {
                resources::join(
                    more,
                    change.linux.mut_or_insert_default().resources.mut_or_insert_default(),
                );
            }
        }
        let positions: HashMap<String, usize> =
            self.updates.iter().enumerate().map(|(at, u)| (u.container_id.clone(), at)).collect();
        for change in changes {
            let id = change.container_id;
            let at = positions.get(&id).copied().unwrap_or_else(|| {
                self.updates.push(ContainerUpdate {
                    container_id: id.clone(),
                    ignore_failure: true,
                    ..Default::default()
                });
                self.updates.len() - 1
            });
            let merged = &mut self.updates[at];
            merged.ignore_failure &= change.ignore_failure;
            if change.linux.resources.is_some() {
                let into = &mut merged.linux.mut_or_insert_default().resources;
                if into.is_none() {
                    let base = self.base.as_ref().filter(|(requested, _)| *requested == id);
                    *into = Some(base.map(|(_, resources)| resources.clone()).unwrap_or_default())
                        .into();
                }
                resources::apply_all(&change.linux.resources, into.mut_or_insert_default());
            }
        }
    }
}
