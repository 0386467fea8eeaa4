//! Exclusive CPUs: choosing them, and keeping them when a request changes or the plugin starts.

use crate::{
    allocator::Allocator,
    hardware::cpuset::CpuSet,
    placed::{Kind, Placed},
    placement::{Choice, Span, Wanted, choose, extend},
    policy::{Cores, Smt, Within},
    request::{Refusal, Request},
};

impl Allocator {
    /// Returns the CPUs that a container with this request can get exclusively: those of the shared
    /// pool, without those that containers hold whose engines have set them.
    pub(crate) fn free(&self, request: &Request) -> CpuSet {
        let held = self.held(Some(request));
        let held = self.containers.iter().filter(|(id, _)| held.contains(id.as_str()));
        held.fold(self.pool(), |free, (_, placed)| free.minus(&self.own_cpuset(placed)))
    }

    /// Returns the CPUs of the kinds of cores that a class wants.
    pub(crate) fn suitable(&self, request: &Request) -> CpuSet {
        let kinds = &self.machine.kinds;
        let fastest = kinds.first().unwrap_or(&self.machine.cpus);
        match self.class(request).cores {
            Cores::Performance => fastest.clone(),
            // A machine with one kind of cores has no slower ones: all are as suitable.
            Cores::Efficiency if kinds.len() > 1 => self.machine.cpus.minus(fastest),
            Cores::Any | Cores::Efficiency => self.machine.cpus.clone(),
        }
    }

    fn wanted<'a>(&self, request: &Request, suitable: &'a CpuSet) -> Wanted<'a> {
        let class = self.class(request);
        Wanted { count: request.count, smt: class.smt, suitable, within: class.within }
    }

    /// Chooses exclusive CPUs, or returns what is missing.
    pub(crate) fn choose_exclusive(&self, request: &Request) -> Result<Choice, String> {
        let (free, suitable) = (self.free(request), self.suitable(request));
        let wanted = self.wanted(request, &suitable);
        // CPUs come in cores and groups: what engines have set does not keep a container from them.
        let choice = self
            .choose_quiet(&free, &wanted)
            .or_else(|| choose(&self.machine, &self.pool(), &wanted));
        let choice = choice.ok_or_else(|| {
            let (count, usable) = (request.count, free.and(&suitable).len());
            let place = match wanted.within {
                Within::Machine => String::new(),
                within => format!(" within {within}"),
            };
            format!("{count} exclusive CPUs{place} are wanted, and {usable} CPUs are free")
        })?;
        if let Some(reason) = self.over_quota(&request.account, choice.owned.len()) {
            return Err(reason);
        }
        if self.leaves_enough(&choice.owned) {
            return Ok(choice);
        }
        let (count, pool, min) = (choice.owned.len(), self.pool().len(), self.policy.shared_min);
        Err(format!(
            "{count} exclusive CPUs are wanted, and {} of {pool} stay shared (shared_min)",
            min.max(1)
        ))
    }

    /// Chooses CPUs from the free ones: none of those that serve the interrupts of devices, if
    /// others are as near to each other.
    fn choose_quiet(&self, free: &CpuSet, wanted: &Wanted<'_>) -> Option<Choice> {
        let span = |choice: &Choice| Span::of(&self.machine, &choice.cpus);
        let nearest = choose(&self.machine, free, wanted)?;
        let quiet = choose(&self.machine, &free.minus(&self.machine.serving), wanted);
        Some(quiet.filter(|quiet| span(quiet) <= span(&nearest)).unwrap_or(nearest))
    }

    /// Whether the shared pool remains large enough without these CPUs.
    pub(crate) fn leaves_enough(&self, owned: &CpuSet) -> bool {
        self.pool().minus(owned).len() >= self.policy.shared_min.max(1)
    }

    /// Returns a container, which is not one of the containers meanwhile, with exclusive CPUs for a
    /// changed request: the same, some of them, or more of them; others, if that is not possible.
    pub(crate) fn place_changed(
        &self,
        before: &Placed,
        request: Request,
    ) -> Result<Placed, Refusal> {
        // It gives CPUs up only after it has got others.
        let both = |choice: &Choice| choice.owned.or(&before.occupied());
        let is_allowed = |choice: &Choice| {
            let (has, gets) = (before.occupied().len(), both(choice).len());
            let is_within = gets <= has || self.over_quota(&request.account, gets).is_none();
            is_within && self.leaves_enough(&both(choice))
        };
        let moved = || {
            let choice = self.choose_exclusive(&request)?;
            if self.leaves_enough(&both(&choice)) {
                return Ok(choice);
            }
            let (count, has) = (choice.owned.len(), before.owned.len());
            Err(format!(
                "{count} exclusive CPUs are wanted, and they are not free before it has given up \
                 the {has} that it has (shared_min)"
            ))
        };
        let kept = self.keep(before, &request).filter(is_allowed);
        let choice = kept.map_or_else(moved, Ok);
        match choice {
            Ok(choice) => Ok(Placed {
                cpus: choice.cpus,
                owned: choice.owned,
                ..Placed::new(request, Kind::Exclusive)
            }),
            Err(reason) => Err(Refusal::Unsatisfied { class: request.class, reason }),
        }
    }

    fn keep(&self, before: &Placed, request: &Request) -> Option<Choice> {
        let suitable = self.suitable(request);
        let wanted = self.wanted(request, &suitable);
        let has = before.cpus.len();
        if request.count == before.request.count || request.count == has {
            return Some(Choice { cpus: before.cpus.clone(), owned: before.owned.clone() });
        }
        if request.count < has {
            return choose(&self.machine, &before.owned, &wanted);
        }
        extend(&self.machine, &self.free(request).minus(&before.owned), &before.cpus, &wanted)
    }

    /// Returns CPUs that a container has as its exclusive ones, if they can be that: as many as it
    /// wants, of the wanted kind, within the wanted group, and free.
    pub(crate) fn accept_exclusive(&self, request: &Request, cpus: &CpuSet) -> Option<Choice> {
        let (class, machine) = (self.class(request), &self.machine);
        let threads = machine.cores_of(cpus);
        let owned = if class.smt == Smt::Share { cpus.clone() } else { threads.clone() };
        let cores = || machine.cores().filter(|core| core.intersects(cpus));
        let is_right = match class.smt {
            Smt::Share => cpus.len() == request.count,
            Smt::Single => cpus.len() == request.count && cores().count() == request.count,
            Smt::Whole => {
                let largest = cores().map(CpuSet::len).max().unwrap_or_default();
                *cpus == threads
                    && (request.count..request.count.saturating_add(largest)).contains(&cpus.len())
            }
        };
        let level = class.within.level();
        let is_within = level
            .is_none_or(|level| machine.groups(level).iter().any(|group| cpus.is_subset(group)));
        let is_free =
            owned.is_subset(&self.free(request)) && cpus.is_subset(&self.suitable(request));
        let is_accepted = is_right && is_within && is_free && self.leaves_enough(&owned);
        is_accepted.then(|| Choice { cpus: cpus.clone(), owned })
    }
}
