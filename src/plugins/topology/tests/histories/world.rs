//! What an engine and the kernel would have: containers, what they ask for, and the CPUs and memory
//! nodes that they really have. The plugin is restarted from that.

use crate::{
    container::{Container, assigned, set_size},
    counts::Counts,
    invariants, oracle,
};
use nri_topology::{
    allocator::Allocator,
    cgroup::Place,
    existing::{Assigned, Existing},
    hardware::{cpuset::CpuSet, machine::Machine},
    placed::{Assignment, Changes, Kind},
    policy::Policy,
    request::{CLASS_KEY, request},
    subject::Subject,
};
use std::collections::BTreeMap;

/// A history; the numbers choose among what exists.
#[derive(Debug, Clone)]
pub(crate) struct History {
    pub(crate) machine: u32,
    pub(crate) policy: u32,
    pub(crate) ops: Vec<Op>,
}

/// An event.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Create {
        what: u32,
        size: u32,
    },
    /// The runtime fails after the plugin has replied.
    CreateFails {
        what: u32,
        size: u32,
    },
    /// The plugin is not connected, and is restarted then.
    CreateUnseen {
        what: u32,
        size: u32,
    },
    /// A container that the plugin does not see, and that says it has CPUs of its own.
    Forge {
        what: u32,
        size: u32,
    },
    Update {
        which: u32,
        size: u32,
    },
    /// The runtime fails after the plugin has replied, and the plugin is restarted then.
    UpdateFails {
        which: u32,
        size: u32,
    },
    /// The runtime fails after the plugin has replied, and the plugin does not notice it.
    UpdateFailsUnseen {
        which: u32,
        size: u32,
    },
    /// An engine sets CPUs of a container while the plugin is not connected.
    UpdateAway {
        which: u32,
        size: u32,
    },
    Stop {
        which: u32,
    },
    StopUnseen {
        which: u32,
    },
    Restart,
}

pub(crate) struct World {
    pub(crate) machine: Machine,
    pub(crate) policy: String,
    pub(crate) allocator: Allocator,
    pub(crate) containers: BTreeMap<String, Container>,
    pub(crate) counts: Counts,
    /// Whether the runtime says what plugins have set.
    pub(crate) is_known: bool,
    /// Whether containers need not keep what they have in a restart, since their annotations are no
    /// longer what the policy would give them.
    pub(crate) is_disturbed: bool,
    /// Whether an update that the plugin knows has failed since its start.
    pub(crate) is_unsure: bool,
    next: usize,
}

const CLASSES: &str = r#"
[class.node]
within = "node"
[class.package]
within = "package"
[class.other]
cpus = "unmanaged"
[class.soft]
cpus = "exclusive"
unsatisfied = "share"
[class.soft-node]
cpus = "exclusive"
unsatisfied = "share"
within = "node"
[class.hard-node]
cpus = "exclusive"
within = "node"
[class.l3]
cpus = "exclusive"
within = "l3"
unsatisfied = "share"
[class.whole]
cpus = "exclusive"
smt = "whole"
unsatisfied = "share"
[class.single]
cpus = "exclusive"
smt = "single"
unsatisfied = "share"
[class.fast]
cpus = "exclusive"
cores = "performance"
[class.slow]
cpus = "exclusive"
cores = "efficiency"
smt = "whole"
unsatisfied = "share"
[class.idle]
idle = true
[class.idle-node]
idle = true
within = "node"
[class.keep]
cpus = "exclusive"
lend = false
[[rule]]
class = "soft"
whole_cpus = true
min_cpus = 3
"#;

const QUOTAS: &str = r#"
[[quota]]
namespace = "a"
exclusive_cpus = 4
[[quota]]
namespace = "b*"
per = "namespace"
exclusive_cpus = "25%"
cpuset_counts = false
"#;

const NAMES: [&str; 16] = [
    "shared",
    "exclusive",
    "node",
    "package",
    "other",
    "soft",
    "soft-node",
    "hard-node",
    "l3",
    "whole",
    "single",
    "fast",
    "slow",
    "idle",
    "idle-node",
    "keep",
];

impl World {
    pub(crate) fn new(machine: Machine, choice: u32) -> Self {
        let reserved = ["0", "1", "\"0\"", "3"][choice as usize % 4];
        let shared_min = [1, 1, 2, 5][choice as usize / 4 % 4];
        let user_cpuset = ["keep", "override"][choice as usize / 16 % 2];
        let max_moves = choice / 32 % 3;
        let memory_nodes = !(choice / 96).is_multiple_of(8);
        let requests_max = ["\"50%\"", "\"100%\"", "3"][choice as usize / 768 % 3];
        let is_known = !(choice / 2304).is_multiple_of(3);
        let quotas = ["", QUOTAS][choice as usize / 6912 % 2];
        let policy = format!(
            "requests_max = {requests_max}\nreserved_cpus = {reserved}\n\
             shared_min = {shared_min}\nmax_moves = {max_moves}\n\
             user_cpuset = \"{user_cpuset}\"\nmemory_nodes = {memory_nodes}\n{CLASSES}{quotas}"
        );
        let built = Allocator::new(machine.clone(), policy.parse().unwrap());
        let (policy, allocator) = match built {
            Ok(allocator) => (policy, allocator),
            Err(_) => {
                let allocator = Allocator::new(machine.clone(), CLASSES.parse().unwrap()).unwrap();
                (CLASSES.to_owned(), allocator)
            }
        };
        let (containers, counts) = (BTreeMap::new(), Counts::default());
        Self {
            machine,
            policy,
            allocator,
            containers,
            counts,
            is_known,
            is_disturbed: false,
            is_unsure: false,
            next: 0,
        }
    }

    /// Lets an event happen, and checks all invariants.
    pub(crate) fn run(&mut self, op: &Op) -> Result<(), String> {
        self.counts.events += 1;
        match *op {
            Op::Create { what, size } => _ = self.create(what, size)?,
            Op::CreateFails { what, size } => {
                if let Some(id) = self.create(what, size)? {
                    self.stop(&id);
                }
            }
            Op::CreateUnseen { what, size } => {
                let (id, subject) = self.subject(what, size);
                let (cpus, nodes) = subject.pinned.clone().unwrap_or_default();
                let has = Assignment { cpus, nodes };
                let subject = Subject { pinned: None, ..subject };
                self.insert(id, subject, has, None);
                self.restart()?;
            }
            Op::Forge { what, size } => self.forge(what, size)?,
            Op::Update { which, size } => {
                if let Some((id, changed)) = self.change(which, size) {
                    self.update(&id, &changed, true)?;
                }
            }
            Op::UpdateFails { which, size } => {
                if let Some((id, changed)) = self.change(which, size) {
                    self.update(&id, &changed, false)?;
                    self.start_plugin()?;
                }
            }
            Op::UpdateFailsUnseen { which, size } => {
                if let Some((id, changed)) = self.change(which, size) {
                    self.update(&id, &changed, false)?;
                }
            }
            Op::UpdateAway { which, size } => self.update_away(which, size)?,
            Op::Stop { which } => {
                if let Some(id) = self.any(which) {
                    self.stop(&id);
                }
            }
            Op::StopUnseen { which } => {
                if let Some(id) = self.any(which) {
                    self.containers.remove(&id);
                    self.start_plugin()?;
                }
            }
            Op::Restart => self.restart()?,
        }
        self.confirm();
        self.count();
        invariants::check(&self.allocator, &self.containers, self.is_known)
    }

    /// Restarts the plugin: it must know and want what it knew and wanted before, and nothing of
    /// what it has placed may change.
    pub(crate) fn restart(&mut self) -> Result<(), String> {
        self.counts.restarts += 1;
        let is_unsure = self.is_unsure || self.has_displaced();
        let before = self.allocator.containers().clone();
        let changes = self.start_plugin()?;
        if is_unsure || self.is_disturbed && !self.is_known {
            return Ok(());
        }
        for (id, placed) in &before {
            let now = &self.allocator.containers()[id];
            let same = (now.kind, &now.cpus, &now.owned, &now.nodes)
                == (placed.kind, &placed.cpus, &placed.owned, &placed.nodes);
            let is_alone = changes.keys().all(|changed| before.contains_key(changed));
            // Nothing proves that a container is idle.
            let is_idle = placed.request.borrows && !self.is_known;
            if !same && is_alone && !is_idle {
                return Err(format!("drift of {id}: {placed:?} became {now:?}"));
            }
        }
        let again = self.start_plugin()?;
        if !again.is_empty() {
            return Err(format!("a second start changes {again:?}"));
        }
        Ok(())
    }

    pub(crate) fn start_plugin(&mut self) -> Result<Changes, String> {
        let policy: Policy = self.policy.parse().unwrap();
        let existing = self.containers.iter().map(|(id, container)| {
            let Container { subject, has, assigned, created_at, is_own, .. } = container;
            let (is_proven, has_own) = (self.is_known, !self.is_known || *is_own);
            let assigned = assigned.clone().map(|a| Assigned { is_proven, has_own, ..a });
            let existing = Existing::new(&policy, subject, assigned.as_ref(), has.clone());
            (id.clone(), Existing { created_at: *created_at, ..existing })
        });
        let existing = existing.collect();
        let mut allocator =
            Allocator::new(self.machine.clone(), policy).map_err(|e| e.to_string())?;
        let changes = allocator.synchronize(&existing);
        self.allocator = allocator;
        self.containers.values_mut().for_each(|container| container.is_stale = false);
        self.is_unsure = false;
        self.apply(&changes);
        Ok(changes)
    }

    fn insert(
        &mut self,
        id: String,
        subject: Subject,
        has: Assignment,
        assigned: Option<Assigned>,
    ) {
        let created_at = self.next as i64;
        let pinned = assigned.as_ref().and_then(|assigned| assigned.cpuset.clone());
        let (is_stale, is_own) = (false, false);
        let container = Container { subject, has, assigned, created_at, is_stale, is_own, pinned };
        self.containers.insert(id, container);
    }

    /// Creates a container without the plugin, which says that it has exclusive CPUs: those of its
    /// own cpuset. No container loses CPUs to it.
    fn forge(&mut self, what: u32, size: u32) -> Result<(), String> {
        self.counts.forged += 1;
        let (id, subject) = self.subject(what, size);
        let cpus: CpuSet = match self.allocator.containers().values().nth(size as usize % 3) {
            Some(placed) => placed.cpus.clone(),
            None => self.machine.cpus.iter().skip(what as usize % 4).take(2).collect(),
        };
        let has = Assignment { cpus, nodes: CpuSet::new() };
        let assigned = Assigned {
            kind: Kind::Exclusive,
            class: NAMES[size as usize % NAMES.len()].to_owned(),
            cpuset: None,
            count: None,
            reason: None,
            borrows: true,
            has_own: true,
            is_proven: false,
        };
        let subject = Subject { pinned: None, ..subject };
        // A runtime that knows better does not show it.
        self.insert(id, subject, has, (!self.is_known).then_some(assigned));
        let before = self.allocator.containers().clone();
        let is_sure = !self.is_unsure && (self.is_known || !self.is_disturbed);
        self.start_plugin()?;
        let exclusive = before.iter().filter(|(_, placed)| placed.kind == Kind::Exclusive);
        for (id, placed) in exclusive.filter(|_| is_sure) {
            let now = &self.allocator.containers()[id];
            if (now.kind, &now.cpus) != (placed.kind, &placed.cpus) {
                return Err(format!("a forged container took CPUs: {placed:?} became {now:?}"));
            }
        }
        self.is_disturbed = true;
        Ok(())
    }

    fn apply(&mut self, changes: &Changes) {
        for (id, assignment) in changes {
            if let Some(container) = self.containers.get_mut(id) {
                if !assignment.cpus.is_empty() {
                    container.has.cpus = assignment.cpus.clone();
                    container.is_own = true;
                }
                if !assignment.nodes.is_empty() {
                    container.has.nodes = assignment.nodes.clone();
                }
                container.is_stale = false;
            }
        }
    }

    /// Lets the plugin know which containers have what it wants, until nothing changes any more.
    fn confirm(&mut self) {
        loop {
            let mut placed = self.allocator.containers().iter();
            let next = placed.find(|(id, p)| !p.kept.is_empty() && !self.containers[*id].is_stale);
            let Some(id) = next.map(|(id, _)| id.clone()) else { return };
            let changes = self.allocator.confirm(&id, &self.containers[&id].has.cpus);
            self.counts.confirmed += 1;
            self.apply(&changes);
        }
    }

    fn subject(&mut self, what: u32, size: u32) -> (String, Subject) {
        self.next += 1;
        let id = format!("c{:03}", (self.next * 37) % 1000); // ids are not in order of creation
        let mut subject = Subject { name: id.clone(), ..Subject::default() };
        let class = NAMES[what as usize % NAMES.len()];
        if !(what / 16).is_multiple_of(4) {
            subject.annotations.insert(CLASS_KEY.to_owned(), class.to_owned());
        }
        set_size(&mut subject, &self.machine, size);
        subject.namespace = ["", "a", "b1", "b2"][what as usize / 512 % 4].to_owned();
        if (what / 1024).is_multiple_of(2) {
            subject.cgroup = Place::Root;
        }
        if (what / 64).is_multiple_of(8) {
            let cpus = self.machine.cpus.iter().skip(size as usize % self.machine.cpus.len());
            subject.pinned = Some((cpus.take(2).collect(), CpuSet::new()));
        }
        (id, subject)
    }

    fn create(&mut self, what: u32, size: u32) -> Result<Option<String>, String> {
        let (id, subject) = self.subject(what, size);
        let before = self.allocator.containers().clone();
        let wanted = request(self.allocator.policy(), &subject);
        let Ok(wanted) = wanted else {
            self.counts.refused += 1;
            return Ok(None);
        };
        let possible = oracle::is_possible(&self.allocator, &wanted);
        match self.allocator.create(&id, wanted) {
            Err(refusal) => {
                self.counts.refused += 1;
                self.counts.over_quota += u64::from(refusal.to_string().contains("allows"));
                if *self.allocator.containers() != before {
                    return Err("a refusal changed the state".to_owned());
                }
                match possible {
                    Some(true) => Err("refused, but there are CPUs".to_owned()),
                    Some(false) | None => Ok(None),
                }
            }
            Ok(changes) => {
                let placed = &self.allocator.containers()[&id];
                if placed.is_degraded() && possible == Some(true) {
                    return Err(format!("degraded, but there are CPUs: {placed:?}"));
                }
                if placed.kind == Kind::Exclusive && possible == Some(false) {
                    return Err(format!("there are not enough CPUs: {placed:?}"));
                }
                let assigned = Some(assigned(placed));
                let (cpus, nodes) = subject.pinned.clone().unwrap_or_default();
                let has = Assignment { cpus, nodes };
                let subject = Subject { pinned: None, ..subject };
                self.insert(id.clone(), subject, has, assigned);
                self.apply(&changes);
                self.counts.moved += changes.len() as u64 - u64::from(changes.contains_key(&id));
                Ok(Some(id))
            }
        }
    }

    pub(crate) fn change(&self, which: u32, size: u32) -> Option<(String, Subject)> {
        let id = self.any(which)?;
        let mut subject = self.containers[&id].subject.clone();
        set_size(&mut subject, &self.machine, size);
        // Annotations stay what they were at the creation.
        subject.annotations = self.containers[&id].subject.annotations.clone();
        Some((id, subject))
    }

    fn update(&mut self, id: &str, subject: &Subject, succeeds: bool) -> Result<(), String> {
        let before = self.allocator.containers().clone();
        self.is_disturbed = true;
        match self.allocator.update(id, subject) {
            Err(_) if *self.allocator.containers() == before => self.counts.refused += 1,
            Err(_) => return Err("a refused update changed the state".to_owned()),
            Ok(mut changes) => {
                let is_changed = changes.remove(id).is_some();
                self.apply(&changes);
                // The update of the engine comes last, and may fail. With another limit, a rule can
                // give an unmanaged container another class: until then it has CPUs of others.
                if before[id].kind != Kind::Unmanaged {
                    invariants::apart(&self.allocator, &self.containers)?;
                }
                let placed = &self.allocator.containers()[id];
                let container = self.containers.get_mut(id).unwrap();
                if succeeds {
                    container.subject = subject.clone();
                } else {
                    self.is_unsure = true;
                }
                // The plugin requests CPUs of others again, but not what an engine has to make.
                container.is_stale |= !succeeds && is_changed && placed.kind == Kind::Exclusive;
                self.counts.stale += u64::from(container.is_stale);
                if succeeds || !container.is_stale {
                    let own = (id.to_owned(), placed.assignment());
                    self.apply(&[own].into());
                }
            }
        }
        Ok(())
    }

    fn stop(&mut self, id: &str) {
        self.containers.remove(id);
        let changes = self.allocator.remove(id);
        self.counts.moved += changes.len() as u64;
        self.apply(&changes);
    }

    fn any(&self, which: u32) -> Option<String> {
        let count = self.containers.len().max(1);
        self.containers.keys().nth(which as usize % count).cloned()
    }

    fn count(&mut self) {
        for placed in self.allocator.containers().values() {
            self.counts.exclusive += u64::from(placed.kind == Kind::Exclusive);
            self.counts.degraded += u64::from(placed.is_degraded());
            self.counts.pinned += u64::from(placed.kind == Kind::Pinned);
            let is_borrowed =
                placed.request.borrows && !placed.cpus.is_subset(&self.allocator.pool());
            self.counts.borrowed += u64::from(is_borrowed);
        }
    }
}
