//! The state from what containers have: after a start of the plugin, and after each loss of the
//! connection. What containers have and may have, they keep, but no exclusive CPUs that an engine
//! has set meanwhile: what a container has is not always what it was given.

use crate::{
    allocator::Allocator,
    existing::Existing,
    hardware::cpuset::CpuSet,
    placed::{Changes, Kind, Placed},
    placement::Choice,
    policy::Cpus,
};
use std::collections::BTreeMap;

/// Why a container shares CPUs whose creation the plugin has not seen.
const UNSEEN: &str = "it was created while the plugin was not connected: start it again";

/// Why a container shares CPUs that says it has exclusive ones.
const UNPROVEN: &str = "nothing proves that its CPUs are exclusive, and the policy would give it \
    others: start it again";

/// Why another container shares CPUs, if nothing else is known.
const SHARED_BEFORE: &str = "it shared CPUs when it was created: start it again";

/// A container with its id.
type Found<'a> = (&'a String, &'a Existing);

impl Allocator {
    /// Replaces all containers by those that exist. The changes make them what they should be.
    pub fn synchronize(&mut self, existing: &BTreeMap<String, Existing>) -> Changes {
        self.containers.clear();
        let (mut exclusive, mut pinned) = (Vec::new(), Vec::new());
        for (id, container) in existing {
            match self.place_existing(container) {
                Some(placed) if placed.kind == Kind::Pinned => pinned.push((id, placed)),
                Some(placed) => _ = self.containers.insert(id.clone(), placed),
                None => exclusive.push((id, container)),
            }
        }
        // Older containers first: who has no proof, and has CPUs of another, has come later.
        exclusive.sort_by_key(|(_, container)| (!container.is_proven, container.created_at));
        // First those that keep what they have, so that no other one gets it, and of these the ones
        // that a quota allows: it may be smaller than before. CPUs of engines are held as far as
        // they are not exclusive.
        // Last come those whose CPUs others have, too: they shared CPUs when the plugin ended.
        let (alone, late): (Vec<_>, Vec<_>) = exclusive
            .into_iter()
            .partition(|(id, container)| !container.is_proven || is_alone(existing, id));
        let others = self.accept_all(alone, false);
        let mut others = self.accept_all(others, true);
        others.extend(self.accept_all(late, false));
        for (id, placed) in pinned {
            self.containers.insert(id.clone(), placed);
        }
        for (id, container) in others {
            let chosen = match container.is_proven {
                true => self.choose_exclusive(&container.request),
                false => Err(UNPROVEN.to_owned()),
            };
            match chosen {
                Ok(choice) => self.insert_exclusive(id, container, choice),
                Err(reason) => {
                    let placed = Placed::new(container.request.clone(), Kind::Shared);
                    let is_seen = container.is_proven;
                    let placed = Placed { reason: Some(reason), is_seen, ..placed };
                    self.containers.insert(id.clone(), placed);
                }
            }
        }
        self.refresh_pinned();
        self.refresh_shared();
        for (id, container) in existing {
            let placed = &self.containers[id];
            let home = self.home_of(&placed.cpus);
            let is_kept = matches!(placed.kind, Kind::Exclusive | Kind::Shared)
                && self.accepts_nodes(id, &container.has.nodes);
            if let Some(placed) = self.containers.get_mut(id).filter(|_| is_kept) {
                (placed.nodes, placed.home) = (container.has.nodes.clone(), home);
            }
        }
        self.refresh_nodes();
        let differs = |(id, placed): (&String, &Placed)| {
            let found = existing.get(id)?;
            let (now, has) = (placed.assignment(), &found.has);
            // Requested also if they are the same by chance: from then on, they are the plugin's.
            let is_own = found.has_own || placed.kind != Kind::Exclusive;
            let is_same = |wanted: &CpuSet, has: &CpuSet| wanted.is_empty() || wanted == has;
            let same = is_same(&now.cpus, &has.cpus) && is_same(&now.nodes, &has.nodes);
            (!same || !is_own).then(|| (id.clone(), now))
        };
        self.containers.iter().filter_map(differs).collect()
    }

    /// Adds the containers that keep their exclusive CPUs, and returns the others.
    fn accept_all<'a>(&mut self, containers: Vec<Found<'a>>, may_exceed: bool) -> Vec<Found<'a>> {
        let mut others = Vec::new();
        for (id, container) in containers {
            match self.accept_existing(container, may_exceed) {
                Some(choice) => self.insert_exclusive(id, container, choice),
                None => others.push((id, container)),
            }
        }
        others
    }

    /// Returns the exclusive CPUs that a container has and keeps: those that the plugin has given
    /// it, as far as the runtime says who has set them. A quota has to allow them as at a creation,
    /// unless `may_exceed`; without proof, it always has to.
    fn accept_existing(&self, container: &Existing, may_exceed: bool) -> Option<Choice> {
        let request = &container.request;
        if !container.has_own {
            return None;
        }
        let choice = self.accept_exclusive(request, &container.has.cpus)?;
        let is_allowed = self.over_quota(&request.account, choice.owned.len()).is_none()
            || may_exceed && container.is_proven;
        is_allowed.then_some(choice)
    }

    fn insert_exclusive(&mut self, id: &str, container: &Existing, choice: Choice) {
        let placed = Placed::new(container.request.clone(), Kind::Exclusive);
        let first_count = container.first_count;
        let placed = Placed { cpus: choice.cpus, owned: choice.owned, first_count, ..placed };
        self.containers.insert(id.to_owned(), placed);
    }

    /// Returns a container that gets no exclusive CPUs, before it is one of the containers. `None`
    /// if it gets some.
    pub(crate) fn place_existing(&self, container: &Existing) -> Option<Placed> {
        let (request, has) = (container.request.clone(), &container.has);
        let class = self.class(&request);
        let placed = match container.kind {
            _ if class.cpus == Cpus::Unmanaged => Placed::new(request, Kind::Unmanaged),
            Some(Kind::Pinned) if has.cpus.intersects(&self.machine.cpus) => {
                let cpus = has.cpus.and(&self.machine.cpus);
                Placed { cpus, nodes: has.nodes.clone(), ..Placed::new(request, Kind::Pinned) }
            }
            Some(Kind::Exclusive) if request.count > 0 => return None,
            _ => {
                let why = if container.kind.is_some() { SHARED_BEFORE } else { UNSEEN };
                let why = (class.cpus == Cpus::Exclusive).then(|| why.to_owned());
                let reason = container.reason.clone().or(why);
                // It stays in the group where it is.
                let groups = class.within.level().map(|level| self.machine.groups(level));
                let group = groups.and_then(|groups| {
                    let is_in = |group| !has.cpus.is_empty() && has.cpus.is_subset(group);
                    groups.iter().position(is_in)
                });
                Placed { reason, group, ..Placed::new(request, Kind::Shared) }
            }
        };
        Some(Placed { is_seen: container.kind.is_some(), ..placed })
    }
}

/// Whether the plugin has given the CPUs of a container to no other one: it may have shared CPUs
/// when the plugin ended, whatever it got at its creation. What was lent does not count.
fn is_alone(existing: &BTreeMap<String, Existing>, id: &str) -> bool {
    let Some(container) = existing.get(id) else { return false };
    let mut others = existing.iter().filter(|(other, found)| {
        let is_lent = found.kind == Some(Kind::Shared) && found.request.borrows;
        let is_given = found.kind.is_some() && found.has_own && !is_lent;
        is_given && other.as_str() != id
    });
    !others.any(|(_, other)| other.has.cpus.intersects(&container.has.cpus))
}
