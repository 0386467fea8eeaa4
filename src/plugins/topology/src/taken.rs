//! What containers have taken from all others, and what quotas allow: exclusive CPUs, and CPUs that
//! engines have set for containers, which no other gets exclusively meanwhile.
//!
//! Exclusive CPUs come first. CPUs of engines are held as far as a quota has something left, in the
//! order of the containers' ids; which ones are held follows from the state alone.

use crate::{
    account::{Account, limit_name},
    allocator::Allocator,
    hardware::cpuset::CpuSet,
    placed::{Kind, Placed},
    request::Request,
};
use std::collections::{BTreeMap, BTreeSet};

/// Most names of containers in a message.
const NAMES: usize = 5;

/// What the containers of an account have taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    /// The CPUs.
    pub cpus: CpuSet,
    /// The containers, and how many CPUs each has taken.
    pub by: Vec<(String, usize)>,
}

impl Allocator {
    /// Returns what all containers have taken, by what limits them.
    pub fn taken(&self) -> BTreeMap<Account, Taken> {
        let held = self.held(None);
        let mut all = BTreeMap::<Account, Taken>::new();
        for (id, placed) in &self.containers {
            let cpus = match placed.kind {
                Kind::Exclusive => &placed.occupied(),
                Kind::Pinned if held.contains(id.as_str()) => &self.own_cpuset(placed),
                Kind::Pinned | Kind::Shared | Kind::Unmanaged => continue,
            };
            if cpus.is_empty() {
                continue;
            }
            let taken = all.entry(self.account_of(placed)).or_default();
            taken.cpus = taken.cpus.or(cpus);
            taken.by.push((placed.request.name.clone(), cpus.len()));
        }
        all
    }

    /// Returns how many CPUs the containers of an account may take; `None` without a limit.
    pub fn allowed(&self, account: &Account) -> Option<usize> {
        let available = self.available().len();
        match account {
            Account::Unlimited => None,
            Account::Requests => Some(self.policy.requests_max.of(available)),
            Account::Quota { index, .. } => {
                Some(self.policy.quotas[*index].exclusive_cpus.of(available))
            }
            Account::NoEngine { .. } => Some(0),
        }
    }

    /// Returns the containers that hold the CPUs that their engines have set, when a container with
    /// a request comes.
    pub(crate) fn held(&self, coming: Option<&Request>) -> BTreeSet<&str> {
        let mut exclusive = BTreeMap::<Account, usize>::new();
        if let Some(request) = coming {
            exclusive.insert(request.account.clone(), request.count);
        }
        let (mut sets, mut held) = (BTreeMap::<Account, CpuSet>::new(), BTreeSet::new());
        for placed in self.containers.values().filter(|placed| placed.kind == Kind::Exclusive) {
            let taken = exclusive.entry(self.account_of(placed)).or_default();
            *taken = taken.saturating_add(placed.occupied().len());
        }
        for (id, placed) in self.containers.iter().filter(|(_, p)| p.kind == Kind::Pinned) {
            let account = self.account_of(placed);
            let with = sets.get(&account).unwrap_or(&CpuSet::new()).or(&self.own_cpuset(placed));
            let taken = exclusive.get(&account).copied().unwrap_or_default();
            let taken = taken.saturating_add(with.len());
            if self.allowed(&account).is_none_or(|allowed| taken <= allowed) {
                held.insert(id.as_str());
                sets.insert(account, with);
            }
        }
        held
    }

    /// Whether a container that comes would hold the CPUs that its engine has set.
    pub(crate) fn would_hold(&self, placed: &Placed) -> bool {
        let (account, cpus) = (self.account_of(placed), self.own_cpuset(placed));
        let taken = self.taken().remove(&account).unwrap_or_default().cpus.or(&cpus).len();
        self.allowed(&account).is_none_or(|allowed| taken <= allowed)
    }

    /// Returns the CPUs that a container with CPUs of its engine can hold.
    pub(crate) fn own_cpuset(&self, placed: &Placed) -> CpuSet {
        let cpus = placed.request.pinned.as_ref().map_or(&placed.cpus, |(cpus, _)| cpus);
        cpus.and(&self.pool())
    }

    fn account_of(&self, placed: &Placed) -> Account {
        match (&placed.request.account, placed.kind) {
            // A rule gives a class, but no CPUs of the caller's choice.
            (Account::Unlimited, Kind::Pinned) => Account::Requests,
            (Account::Quota { index, .. }, Kind::Pinned)
                if !self.policy.quotas[*index].cpuset_counts =>
            {
                Account::Unlimited
            }
            (account, _) => account.clone(),
        }
    }

    /// Returns why a quota does not allow a container, which is not one of the containers
    /// meanwhile, to take this number of CPUs; `None` if it does. Only exclusive CPUs of others
    /// count: they come before CPUs of engines.
    pub(crate) fn over_quota(&self, account: &Account, count: usize) -> Option<String> {
        let allowed = self.allowed(account)?;
        let exclusive = self
            .containers
            .values()
            .filter(|placed| placed.kind == Kind::Exclusive && placed.request.account == *account);
        let by: Vec<_> = exclusive.map(|p| (p.request.name.clone(), p.occupied().len())).collect();
        let taken: usize = by.iter().map(|(_, cpus)| cpus).sum();
        if taken + count <= allowed {
            return None;
        }
        let (limit, key) = (
            limit_name(&self.policy, account),
            match account {
                Account::Requests => "requests_max",
                _ => "its exclusive_cpus",
            },
        );
        Some(match account {
            Account::NoEngine { .. } => format!(
                "{limit} names the engine, which the runtime does not say: facts = [\"engine\"] \
                 in [containers] of config.toml"
            ),
            _ if taken == 0 => format!(
                "{count} exclusive CPUs are wanted, and {limit} allows {allowed}: ask for fewer, \
                 or raise {key}"
            ),
            _ => format!(
                "{count} exclusive CPUs are wanted, and {limit} allows {allowed}, of which {taken} \
                 are taken by {}: end one of these containers, or raise {key}",
                names(&by)
            ),
        })
    }

    /// Sets the CPUs of containers whose engines have set some: those that are exclusive to no
    /// other.
    pub(crate) fn refresh_pinned(&mut self) {
        let held: BTreeSet<String> = self.held(None).into_iter().map(str::to_owned).collect();
        let usable = self.machine.cpus.minus(&self.occupied());
        let pool = self.pool();
        let limit = |placed: &Placed| {
            let account = self.account_of(placed);
            let allowed = self.allowed(&account).unwrap_or_default();
            format!("{} allows {allowed}", limit_name(&self.policy, &account))
        };
        let mut pinned = Vec::new();
        for (id, placed) in self.containers.iter().filter(|(_, p)| p.kind == Kind::Pinned) {
            let Some((cpus, _)) = &placed.request.pinned else { continue };
            let (left, has_all) = (cpus.and(&usable), held.contains(id));
            pinned.push((
                id.clone(),
                match left.is_empty() {
                    true => (pool.clone(), Some(format!("others have all of its CPUs {cpus}"))),
                    false if has_all => (left, None),
                    false => {
                        let limit = limit(placed);
                        (left, Some(format!("others may get its CPUs {cpus} exclusively: {limit}")))
                    }
                },
            ));
        }
        for (id, (cpus, reason)) in pinned {
            if let Some(placed) = self.containers.get_mut(&id) {
                (placed.cpus, placed.reason) = (cpus, reason);
            }
        }
    }
}

/// Returns the names of containers, and how many CPUs each has.
pub(crate) fn names(by: &[(String, usize)]) -> String {
    let names = by.iter().take(NAMES).map(|(name, cpus)| format!("{name} ({cpus})"));
    let mut names = names.collect::<Vec<_>>().join(", ");
    if let Some(more) = by.len().checked_sub(NAMES).filter(|more| *more > 0) {
        names += &format!(" and {more} more");
    }
    names
}
