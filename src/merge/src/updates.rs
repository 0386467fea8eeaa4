//! Updates and evictions of containers that exist: the whole of [`UpdatesMerge`], and a part of the
//! two other merges.

use crate::owners::Owners;
use crate::{FailedUpdate, Ignored, MergeError, UpdatesOutcome, evictions, ignored, resources};
use nri_api::PluginId;
use nri_api::proto::{ContainerEviction, ContainerUpdate, LinuxResources};
use std::collections::HashMap;

/// Merges updates that no request of an engine is behind: those that plugins answer to Synchronize
/// and StopContainer, and those that one plugin sends unsolicited.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UpdatesMerge {
    collected: Collected,
}

impl UpdatesMerge {
    /// Nothing asked for yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes that `plugin` was asked, though it may have nothing to say.
    pub fn consulted(&mut self, plugin: &PluginId) {
        self.collected.consult(plugin);
    }

    /// Merges one plugin's updates.
    ///
    /// # Errors
    /// A conflict, unless its update says that failures are to be ignored. Then nothing of the
    /// reply is merged.
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
        evictions::add(&mut self.collected.evictions, evictions);
    }

    /// What came out.
    pub fn finish(self) -> UpdatesOutcome {
        let Collected { owners, updates, evictions, failed, ignored, consulted, .. } =
            self.collected;
        UpdatesOutcome { updates, evictions, owners: owners.to_proto(), consulted, failed, ignored }
    }
}

/// What the replies so far ask for beside the adjustment of a container.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Collected {
    pub(crate) owners: Owners,
    pub(crate) updates: Vec<ContainerUpdate>,
    pub(crate) evictions: Vec<ContainerEviction>,
    pub(crate) failed: Vec<FailedUpdate>,
    pub(crate) ignored: Vec<Ignored>,
    pub(crate) consulted: Vec<PluginId>,
    /// The container whose update an engine asked for, and the resources that it asked for.
    pub(crate) base: Option<(String, LinuxResources)>,
    /// The container that is being created: it can neither be updated nor evicted.
    pub(crate) created: Option<String>,
}

/// A reply that may be merged, its claims made.
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

    /// Claims what the updates set. On an error no claim made since the last merged reply remains.
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

    /// Merges what was planned; this makes its claims final.
    pub(crate) fn apply(&mut self, plugin: &PluginId, plan: Plan) {
        self.owners.commit();
        self.consult(plugin);
        self.failed.extend(plan.failed);
        evictions::add(&mut self.evictions, plan.evictions);
        for update in &plan.updates {
            self.ignore(plugin, &update.container_id, ignored::in_update(update));
        }
        self.merge(plan.updates);
    }

    /// Notes what of a reply has no effect, as far as there is room.
    pub(crate) fn ignore(&mut self, plugin: &PluginId, container: &str, paths: Vec<String>) {
        if paths.is_empty() {
            return;
        }
        let noted = self.ignored.iter().filter(|i| i.plugin == *plugin).count();
        let room = ignored::MOST.saturating_sub(noted);
        self.ignored.extend(paths.into_iter().take(room).map(|what| Ignored {
            plugin: plugin.clone(),
            container: container.to_owned(),
            what,
        }));
    }

    /// Merges one reply's updates: first those of one container, then with what others asked for
    /// it.
    fn merge(&mut self, updates: Vec<ContainerUpdate>) {
        let mut changes: Vec<ContainerUpdate> = Vec::new();
        let mut places = HashMap::new();
        for mut update in updates {
            let Some(change) = places.get(&update.container_id).map(|at: &usize| &mut changes[*at])
            else {
                places.insert(update.container_id.clone(), changes.len());
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
        let places: HashMap<String, usize> =
            self.updates.iter().enumerate().map(|(at, u)| (u.container_id.clone(), at)).collect();
        for change in changes {
            let id = change.container_id;
            let place = places.get(&id).copied().unwrap_or_else(|| {
                self.updates.push(ContainerUpdate {
                    container_id: id.clone(),
                    ignore_failure: true,
                    ..Default::default()
                });
                self.updates.len() - 1
            });
            let merged = &mut self.updates[place];
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
