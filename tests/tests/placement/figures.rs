//! What is measured of a plugin on a machine.

use crate::machines::RESERVED;
use nri_topology::hardware::{
    cpuset::CpuSet,
    machine::{Level, Machine},
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Levels of which a container should have one group.
const LEVELS: [(&str, Level); 3] =
    [("node", Level::Node), ("l3", Level::L3), ("kind", Level::Kind)];

/// CPUs of containers by the numbers of their creation, and how many they asked for.
pub(crate) type Containers = BTreeMap<usize, (usize, CpuSet)>;

/// How many of all.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    of: usize,
    are: usize,
}

impl Share {
    fn add(&mut self, is: bool) {
        self.of += 1;
        self.are += usize::from(is);
    }

    fn text(self) -> String {
        let percent = 100.0 * self.are as f64 / self.of as f64;
        if self.of == 0 { "–".to_owned() } else { format!("{percent:.1}") }
    }
}

/// The figures.
pub(crate) struct Figures<'a> {
    machine: &'a Machine,
    available: CpuSet,
    events: usize,
    created: usize,
    refused: usize,
    refused_in_vain: usize,
    reasons: BTreeSet<String>,
    /// Containers in one group at their creation, by levels.
    at_creation: [Share; LEVELS.len()],
    /// The same after each event: those that live longer count more.
    in_life: [Share; LEVELS.len()],
    /// Containers whose cores no other container uses, of those that ask for as many CPUs as some
    /// cores have threads.
    own_cores: Share,
    threads: usize,
    /// Containers that have as many CPUs as they asked for, and have them alone.
    exclusive: Share,
    /// Containers that existed before an event, and whose CPUs it has changed: exclusive and
    /// shared ones.
    moves: [usize; 2],
}

impl<'a> Figures<'a> {
    /// Head of the table with [`Figures::row`]s.
    pub(crate) const HEAD: &'static str = "\
        | machine | plugin | created | refused | one node | one L3 | one kind | own cores | moves \
        | shared |\n|---|---|---|---|---|---|---|---|---|---|";

    pub(crate) fn new(machine: &'a Machine) -> Self {
        let reserved = RESERVED.parse().unwrap();
        Self {
            machine,
            available: machine.cpus.minus(&reserved).minus(&machine.isolated),
            events: 0,
            created: 0,
            refused: 0,
            refused_in_vain: 0,
            reasons: BTreeSet::new(),
            at_creation: Default::default(),
            in_life: Default::default(),
            own_cores: Share::default(),
            threads: machine.cores().map(CpuSet::len).max().unwrap(),
            exclusive: Share::default(),
            moves: [0; 2],
        }
    }

    /// Adds a creation that was refused.
    pub(crate) fn refused(&mut self, size: usize, before: &Containers, reason: &str) {
        self.refused += 1;
        let exclusive = before.values().filter(|(size, _)| *size > 0);
        let free = exclusive.fold(self.available.clone(), |free, (_, cpus)| free.minus(cpus));
        if free.len() > size {
            self.refused_in_vain += 1;
            self.reasons.insert(reason.to_owned());
        }
    }

    /// Adds what containers have before and after an event.
    pub(crate) fn add(&mut self, before: &Containers, after: &Containers) {
        self.events += 1;
        for (number, (size, cpus)) in after {
            match before.get(number) {
                None => self.created += 1,
                Some((_, had)) => self.moves[usize::from(*size == 0)] += usize::from(had != cpus),
            }
            if *size == 0 {
                continue;
            }
            for (index, (_, level)) in LEVELS.iter().enumerate() {
                let groups = self.machine.groups(*level);
                let fits = groups.iter().any(|group| group.common(&self.available) >= *size);
                if groups.len() > 1 && fits {
                    let is_in_one = self.machine.spanned(*level, cpus) == 1;
                    self.in_life[index].add(is_in_one);
                    if !before.contains_key(number) {
                        self.at_creation[index].add(is_in_one);
                    }
                }
            }
            let others = after.iter().filter(|(other, _)| *other != number);
            let others = others.fold(CpuSet::new(), |all, (_, (_, cpus))| all.or(cpus));
            if self.threads > 1 && size.is_multiple_of(self.threads) {
                self.own_cores.add(!self.machine.cores_of(cpus).intersects(&others));
            }
            self.exclusive.add(cpus.len() == *size && !cpus.intersects(&others));
        }
    }

    /// Returns the figures as a row of a table: shares in percent, changes for 100 events.
    pub(crate) fn row(&self, machine: &str, label: &str) -> String {
        let [node, l3, kind] = self.in_life.map(Share::text);
        let cores = self.own_cores.text();
        let per_100 = |count: usize| format!("{:.1}", 100.0 * count as f64 / self.events as f64);
        let [moves, shared] = self.moves.map(per_100);
        let (created, refused) = (self.created, self.refused);
        format!(
            "| {machine} | {label} | {created} | {refused} | {node} | {l3} | {kind} | {cores} \
             | {moves} | {shared} |"
        )
    }

    pub(crate) fn json(&self) -> Value {
        let share = |share: Share| json!({ "of": share.of, "are": share.are });
        let levels = |shares: [Share; LEVELS.len()]| {
            let named = LEVELS.iter().zip(shares);
            let named = named.map(|((name, _), of)| ((*name).to_owned(), share(of)));
            Value::Object(named.collect())
        };
        json!({
            "events": self.events,
            "created": self.created,
            "refused": self.refused,
            "refused_though_cpus_were_free": self.refused_in_vain,
            "reasons": self.reasons,
            "at_creation": levels(self.at_creation),
            "in_life": levels(self.in_life),
            "own_cores": share(self.own_cores),
            "exclusive": share(self.exclusive),
            "moved_exclusive": self.moves[0],
            "changed_shared": self.moves[1],
        })
    }

    /// Checks what our plugin guarantees, and that there was something to see.
    pub(crate) fn check(&self, machine: &str) {
        assert!(self.created > 20, "{machine}: only {} containers", self.created);
        assert_eq!(self.refused_in_vain, 0, "{machine}: {:?}", self.reasons);
        let Share { of, are } = self.exclusive;
        assert_eq!(of, are, "{machine}: containers have not the CPUs that they asked for");
    }
}
