//! Which container has which CPUs and memory nodes: a state, and events that change it. Deciding
//! is all that happens here; the same events in the same order give the same state.
//!
//! Invariants, which `tests/histories` checks after each event: no CPU is exclusive to two
//! containers, or given to one while another may still use it exclusively; no reserved or isolated
//! CPU is given to a container, but one that the engine has set may be such a CPU; the shared pool
//! has at least `shared_min` CPUs; containers have the memory nodes of their CPUs; and a state that
//! is built anew from what containers have is the same.

use crate::{
    existing::Existing,
    hardware::{cpuset::CpuSet, machine::Machine},
    placed::{Changes, Kind, Placed},
    policy::{Class, Cpus, Policy, PolicyError, Reserved, Unsatisfied},
    request::{Refusal, Request, request_again},
    subject::Subject,
};
use std::{collections::BTreeMap, sync::Arc};

/// The state.
#[derive(Debug, Clone)]
pub struct Allocator {
    pub(crate) machine: Arc<Machine>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) reserved: CpuSet,
    pub(crate) containers: BTreeMap<String, Placed>,
}

impl Allocator {
    /// Creates a state without containers.
    ///
    /// # Errors
    /// If the policy does not fit the machine.
    pub fn new(machine: Machine, policy: Policy) -> Result<Self, PolicyError> {
        let reserved = match &policy.reserved_cpus {
            Reserved::List(list) if !list.is_subset(&machine.cpus) => {
                return Err(PolicyError::NotOnline(list.minus(&machine.cpus)));
            }
            Reserved::List(list) => list.clone(),
            Reserved::Count(count) => {
                let cores = machine.cores().filter(|core| !core.intersects(&machine.isolated));
                cores.fold(
                    CpuSet::new(),
                    |all, core| {
                        if all.len() < *count { all.or(core) } else { all }
                    },
                )
            }
        };
        let unavailable = reserved.or(&machine.isolated).and(&machine.cpus);
        let shared_min = policy.shared_min.max(1);
        if machine.cpus.len() < unavailable.len() + shared_min {
            let (reserved, online) = (unavailable.len(), machine.cpus.len());
            return Err(PolicyError::NothingShared { reserved, shared_min, online });
        }
        let (machine, policy) = (Arc::new(machine), Arc::new(policy));
        Ok(Self { machine, policy, reserved, containers: BTreeMap::new() })
    }

    /// Returns the machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the CPUs that no container gets.
    pub fn reserved(&self) -> &CpuSet {
        &self.reserved
    }

    /// Returns the containers by their ids.
    pub fn containers(&self) -> &BTreeMap<String, Placed> {
        &self.containers
    }

    /// Returns the CPUs of the shared pool.
    pub fn pool(&self) -> CpuSet {
        self.available().minus(&self.occupied())
    }

    /// Returns the CPUs that are exclusive to containers, or that these may still use.
    pub(crate) fn occupied(&self) -> CpuSet {
        let all = self.containers.values();
        all.fold(CpuSet::new(), |all, placed| all.or(&placed.owned).or(&placed.kept))
    }

    /// Returns the CPUs that containers can have.
    pub(crate) fn available(&self) -> CpuSet {
        self.machine.cpus.minus(&self.reserved).minus(&self.machine.isolated)
    }

    pub(crate) fn class(&self, request: &Request) -> &Class {
        &self.policy.classes[&request.class]
    }

    /// Places a container that is being created. The changes have its assignment, and those of
    /// others.
    ///
    /// # Errors
    /// If there are not enough CPUs, and its class does not let it share CPUs instead. Nothing
    /// changes then.
    pub fn create(&mut self, id: &str, request: Request) -> Result<Changes, Refusal> {
        let mut next = self.clone();
        next.containers.remove(id); // an earlier container with its id, whose end was missed
        let placed = next.place(request)?;
        next.containers.insert(id.to_owned(), placed);
        Ok(self.become_settled(next, self.policy.max_moves))
    }

    /// Changes the request of a container to what a changed container gets. Its class and whose
    /// CPUs it has stay as they are; with exclusive CPUs, it keeps as many as it can.
    ///
    /// # Errors
    /// If there are not enough CPUs. Nothing changes then.
    pub fn update(&mut self, id: &str, subject: &Subject) -> Result<Changes, Refusal> {
        let mut next = self.clone();
        let Some(before) = next.containers.remove(id) else { return Ok(Changes::new()) };
        let (limit, old_limit) = (subject.memory_limit, before.request.memory_limit);
        let keeps_nodes = limit == old_limit || limit.is_some() && limit < old_limit;
        let mut placed = if before.is_seen {
            let Request { class, mut count, pinned, borrows, .. } = before.request.clone();
            if before.kind == Kind::Exclusive {
                count = count.min(before.first_count);
            }
            let request = request_again(&self.policy, subject, &class, count);
            match before.kind {
                Kind::Exclusive => next.place_changed(&before, request)?,
                Kind::Shared | Kind::Pinned | Kind::Unmanaged => {
                    Placed { request: Request { pinned, borrows, ..request }, ..before.clone() }
                }
            }
        } else {
            let existing = Existing::new(&self.policy, subject, None, before.assignment());
            next.place_existing(&existing).unwrap_or_else(|| before.clone())
        };
        placed.kept = before.occupied().minus(&placed.owned);
        placed.first_count = before.first_count;
        (placed.nodes, placed.home) = match placed.kind {
            Kind::Pinned => (before.nodes, before.home),
            Kind::Exclusive | Kind::Shared if keeps_nodes => (before.nodes, before.home),
            Kind::Exclusive | Kind::Shared | Kind::Unmanaged => Default::default(),
        };
        next.containers.insert(id.to_owned(), placed);
        // Its own update is the last one: until then, no exclusive CPUs may move to those it has.
        Ok(self.become_settled(next, 0))
    }

    /// Gives others the CPUs that a container has given up, unless it still has them.
    pub fn confirm(&mut self, id: &str, has: &CpuSet) -> Changes {
        let Some(placed) = self.containers.get(id) else { return Changes::new() };
        let kept = placed.kept.and(has);
        if placed.kept == kept {
            return Changes::new();
        }
        let mut next = self.clone();
        next.containers.entry(id.to_owned()).and_modify(|placed| placed.kept = kept);
        self.become_settled(next, self.policy.max_moves)
    }

    /// Removes a container that has stopped.
    pub fn remove(&mut self, id: &str) -> Changes {
        let mut next = self.clone();
        if next.containers.remove(id).is_none() {
            return Changes::new();
        }
        self.become_settled(next, self.policy.max_moves)
    }

    /// Completes the next state, replaces this one by it, and returns the differences.
    fn become_settled(&mut self, mut next: Self, max_moves: usize) -> Changes {
        next.settle(max_moves);
        let before = |id: &String| self.containers.get(id).map(Placed::assignment);
        let changed = next.containers.iter().map(|(id, placed)| (id, placed.assignment()));
        let changed = changed
            .filter(|(id, now)| before(id).unwrap_or_default() != *now)
            .map(|(id, now)| (id.clone(), now))
            .collect();
        *self = next;
        changed
    }

    /// Derives everything that depends on all containers, after some have changed.
    fn settle(&mut self, max_moves: usize) {
        self.refresh_shared();
        for _ in 0..max_moves {
            if !self.improve() {
                break;
            }
            self.refresh_shared();
        }
        self.refresh_pinned();
        self.refresh_nodes();
    }

    /// Returns a container with its CPUs, before it is one of the containers.
    pub(crate) fn place(&self, request: Request) -> Result<Placed, Refusal> {
        let class = self.class(&request);
        if class.cpus == Cpus::Unmanaged {
            return Ok(Placed::new(request, Kind::Unmanaged));
        }
        let may_share = class.unsatisfied == Unsatisfied::Share;
        if let Some((cpus, nodes)) = &request.pinned {
            let pinned = Placed::new(request.clone(), Kind::Pinned);
            let pinned = Placed { cpus: cpus.clone(), nodes: nodes.clone(), ..pinned };
            let may_lose = may_share || !self.would_hold(&pinned);
            return match self.pin(cpus, may_lose) {
                Some(kept) => Ok(Placed { cpus: kept, ..pinned }),
                None if may_share => {
                    let reason = Some(Refusal::Pinned(cpus.clone()).to_string());
                    let placed = self.place(Request { pinned: None, ..request })?;
                    Ok(Placed { reason: reason.or(placed.reason), ..placed })
                }
                None => Err(Refusal::Pinned(cpus.clone())),
            };
        }
        if request.count == 0 {
            let reason = (class.cpus == Cpus::Exclusive)
                .then(|| Refusal::NoCount(request.class.clone()).to_string());
            return Ok(Placed { reason, ..Placed::new(request, Kind::Shared) });
        }
        match self.choose_exclusive(&request) {
            Ok(choice) => Ok(Placed {
                cpus: choice.cpus,
                owned: choice.owned,
                ..Placed::new(request, Kind::Exclusive)
            }),
            Err(reason) if may_share => {
                Ok(Placed { reason: Some(reason), ..Placed::new(request, Kind::Shared) })
            }
            Err(reason) => Err(Refusal::Unsatisfied { class: request.class, reason }),
        }
    }

    /// Returns which CPUs that an engine has set a container can keep: all, unless some are
    /// exclusive or offline. Then the others, if it may lose some.
    fn pin(&self, cpus: &CpuSet, may_lose: bool) -> Option<CpuSet> {
        let usable = cpus.and(&self.machine.cpus).minus(&self.occupied());
        let is_kept = usable == *cpus || may_lose && !usable.is_empty();
        is_kept.then_some(usable)
    }
}
