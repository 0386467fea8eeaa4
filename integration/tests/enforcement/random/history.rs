//! What was done and what was seen, and whether both fit: an order of the updates must be possible
//! in which each value seen was the last one made.
//!
//! An update that has ended well before another one began comes first; those that overlap may have
//! either order.

use super::plan::{PLUGINS, is_bad};
use crate::table::named;
use nri_integration::unified_cgroups;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
    time::Instant,
};

/// A field of a container, by the container's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key(pub(super) usize, pub(super) &'static str);

/// Source of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Engine,
    Plugin(&'static str),
}

/// What was reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Made,
    /// With what was said.
    Failed(String),
    /// Not reported: part of the answer to an update that failed later.
    Untold,
}

/// An update of one container.
#[derive(Debug, Clone)]
pub(super) struct Op {
    pub(super) by: By,
    pub(super) start: Instant,
    pub(super) end: Instant,
    pub(super) outcome: Outcome,
    pub(super) writes: BTreeMap<Key, Value>,
    /// Which of these are a plugin's answer to the engine.
    pub(super) answered: BTreeSet<Key>,
    /// It cannot be made.
    pub(super) bad: bool,
}

/// What the kernel held after an update that was reported as made.
struct Seen {
    op: usize,
    key: Key,
    found: String,
    when: Range<Instant>,
}

#[derive(Default)]
pub(super) struct History {
    ops: Vec<Op>,
    seen: Vec<Seen>,
    /// Updates of each field, in the order in which they were recorded.
    of: HashMap<Key, Vec<usize>>,
    /// Values that the engine requested and a plugin's answer replaced.
    pub(super) requested: Vec<(Key, Value, usize)>,
}

impl History {
    pub(super) fn add(&mut self, op: Op) -> usize {
        for key in op.writes.keys() {
            self.of.entry(*key).or_default().push(self.ops.len());
        }
        self.ops.push(op);
        self.ops.len() - 1
    }

    pub(super) fn saw(&mut self, op: usize, key: Key, found: String, when: Range<Instant>) {
        self.seen.push(Seen { op, key, found, when });
    }

    pub(super) fn op(&self, n: usize) -> &Op {
        &self.ops[n]
    }

    /// The plugin that owns a field after an update; none: the engine.
    pub(super) fn owner(&self, n: usize, key: Key) -> Option<&'static str> {
        match self.ops[n].by {
            By::Plugin(name) => Some(name),
            By::Engine if self.ops[n].answered.contains(&key) => Some(PLUGINS[0]),
            By::Engine => None,
        }
    }

    /// Finds the engine's update of each event in the plugin's journal, and lays the answer over
    /// it.
    pub(super) fn take_answers(&mut self, journal: &[Value], ids: &[String]) {
        let number: HashMap<&str, usize> =
            ids.iter().enumerate().map(|(n, id)| (id.as_str(), n)).collect();
        for (n, op) in self.ops.iter().enumerate().filter(|(_, op)| op.by == By::Engine) {
            self.requested.extend(op.writes.iter().map(|(key, value)| (*key, value.clone(), n)));
        }
        for entry in journal.iter().filter(|e| e["event"] == "UpdateContainer") {
            let container = number[entry["container_id"].as_str().expect("an id")];
            let n = self.updated_by(container, &entry["resources"]);
            // One that cannot be is requested all the same, if the answer replaces it.
            let cpus = named("cpu.cpus").value_in(&entry["resources"]);
            self.requested.extend(cpus.map(|cpus| (Key(container, "cpu.cpus"), cpus, n)));
            for update in entry["updates"].as_array().into_iter().flatten() {
                let of = number[update["containerId"].as_str().expect("an id")];
                self.answer(n, of, of == container, &update["linux"]["resources"]);
            }
        }
    }

    /// The engine's update that requested this.
    fn updated_by(&self, container: usize, request: &Value) -> usize {
        let is = |op: &&usize| {
            let op = &self.ops[**op];
            let same = |(key, value): (&Key, &Value)| {
                key.0 == container && named(key.1).value_in(request).as_ref() == Some(value)
            };
            op.by == By::Engine && !op.writes.is_empty() && op.writes.iter().all(same)
        };
        let all = self
            .of
            .iter()
            .filter(|(key, _)| key.0 == container && named(key.1).value_in(request).is_some());
        let found = all.flat_map(|(_, ops)| ops).find(is);
        *found.unwrap_or_else(|| {
            panic!("an update that nobody asked for, of container {container}: {request}")
        })
    }

    fn answer(&mut self, n: usize, container: usize, own: bool, resources: &Value) {
        let writes: BTreeMap<Key, Value> = super::plan::ALL
            .iter()
            .filter_map(|name| Some((Key(container, name), named(name).value_in(resources)?)))
            .collect();
        let cpus = writes.get(&Key(container, "cpu.cpus"));
        let bad = cpus.is_some_and(is_bad);
        if own {
            // It may replace what cannot be, or be it: an update of another container may be of
            // this one.
            if cpus.is_some() {
                self.ops[n].bad = bad;
            }
            for (key, value) in writes {
                let ops = self.of.entry(key).or_default();
                if !ops.contains(&n) {
                    ops.push(n);
                }
                self.ops[n].writes.insert(key, value);
                self.ops[n].answered.insert(key);
            }
            return;
        }
        self.ops[n].bad |= bad;
        let outcome = match (&self.ops[n].outcome, bad) {
            (_, true) => Outcome::Failed("it cannot be".to_owned()),
            (Outcome::Made, _) => Outcome::Made,
            _ => Outcome::Untold,
        };
        let Op { start, end, .. } = self.ops[n];
        let by = By::Plugin(PLUGINS[0]);
        self.add(Op { by, start, end, outcome, writes, answered: BTreeSet::new(), bad });
    }

    /// What cannot be made is reported as failed, and everything else as made.
    pub(super) fn check_outcomes(&self) {
        let wrong = self.ops.iter().filter(|op| match &op.outcome {
            Outcome::Made => op.bad,
            Outcome::Failed(_) => !op.bad,
            Outcome::Untold => false,
        });
        let wrong: Vec<_> = wrong.collect();
        assert!(
            wrong.is_empty(),
            "{} reported wrongly: {:?}",
            wrong.len(),
            &wrong[..wrong.len().min(5)]
        );
    }

    /// What was seen after each update is its own value, or that of one that was made at the same
    /// time or later.
    pub(super) fn check_seen(&self) {
        let mut wrong = Vec::new();
        for seen in &self.seen {
            let after = self.ops[seen.op].start;
            let fits = |n: &usize| {
                let op = &self.ops[*n];
                // What failed is taken back at its end. What an answer did to another container
                // stays, even if the update that it was an answer to fails later.
                let there = !matches!(op.outcome, Outcome::Failed(_)) || op.end > seen.when.start;
                (*n == seen.op || op.end > after) && op.start < seen.when.end && there
            };
            // The runtime writes what it remembers before the rest is written again.
            let in_between = !named(seen.key.1).updatable && self.is_being_updated(seen);
            if !in_between && !self.writers(seen.key, &seen.found).iter().any(fits) {
                wrong.push(format!(
                    "{:?} {:?} after {:?}\nof {}",
                    seen.key,
                    seen.found,
                    self.ops[seen.op],
                    self.story(seen.key, self.ops[seen.op].start)
                ));
            }
        }
        assert!(
            wrong.is_empty(),
            "{} lost updates\n{}",
            wrong.len(),
            wrong[..wrong.len().min(3)].join("\n\n")
        );
    }

    fn is_being_updated(&self, seen: &Seen) -> bool {
        let other = |op: &Op| op.start < seen.when.end && op.end > seen.when.start;
        self.ops.iter().any(|op| other(op) && op.writes.keys().any(|key| key.0 == seen.key.0))
    }

    /// The updates that may have been the last ones of a field: no other one began after they had
    /// ended.
    pub(super) fn last(&self, key: Key) -> Vec<usize> {
        let all = &self.of[&key];
        let made = |n: &&usize| self.ops[**n].outcome == Outcome::Made;
        let latest =
            all.iter().filter(made).map(|n| self.ops[*n].start).max().expect("it was created");
        let may = |n: &&usize| {
            let op = &self.ops[**n];
            !matches!(op.outcome, Outcome::Failed(_)) && op.end >= latest
        };
        all.iter().filter(may).copied().collect()
    }

    /// Values that the engine may have requested last.
    pub(super) fn last_asked(&self, key: Key) -> Vec<&Value> {
        let made =
            |(k, _, n): &&(Key, Value, usize)| *k == key && self.ops[*n].outcome == Outcome::Made;
        let latest = self.requested.iter().filter(made).map(|(.., n)| self.ops[*n].start).max();
        let late = |n: usize| latest.is_none_or(|latest| self.ops[n].end >= latest);
        self.requested
            .iter()
            .filter(made)
            .filter(|(.., n)| late(*n))
            .map(|(_, value, _)| value)
            .collect()
    }

    /// The updates that would make the kernel hold this.
    fn writers(&self, key: Key, found: &str) -> Vec<usize> {
        let writes = |n: &&usize| {
            let value = &self.ops[**n].writes[&key];
            self.expected(key, value).iter().any(|e| e == found)
        };
        self.of[&key].iter().filter(writes).copied().collect()
    }

    /// What the kernel may hold for a value. In version 2 that of swap depends on the limit of
    /// memory: any that was requested.
    pub(super) fn expected(&self, key: Key, value: &Value) -> Vec<String> {
        let field = named(key.1);
        if key.1 != "memory.swap" || !unified_cgroups() {
            return field.expected(value, &Default::default());
        }
        let limits = self.of.get(&Key(key.0, "memory.limit")).into_iter().flatten();
        let limit = |n: &usize| self.ops[*n].writes[&Key(key.0, "memory.limit")].clone();
        limits.flat_map(|n| field.expected(value, &[("memory.limit", limit(n))].into())).collect()
    }

    /// All that was done to a field, for people.
    pub(super) fn story(&self, key: Key, zero: Instant) -> String {
        let ms = |t: Instant| match t.checked_duration_since(zero) {
            Some(after) => format!("{:.1}", after.as_secs_f64() * 1e3),
            None => format!("-{:.1}", (zero - t).as_secs_f64() * 1e3),
        };
        let line = |n: &usize| {
            let op = &self.ops[*n];
            format!(
                "  {:?} {} to {} ms: {} {:?}",
                op.by,
                ms(op.start),
                ms(op.end),
                op.writes[&key],
                op.outcome
            )
        };
        self.of[&key].iter().map(line).collect::<Vec<_>>().join("\n")
    }

    pub(super) fn summary(&self) -> String {
        let count = |f: &dyn Fn(&Op) -> bool| self.ops.iter().filter(|op| f(op)).count();
        format!(
            "{} updates ({} of the engine's, {} refused), {} readings between",
            self.ops.len(),
            count(&|op| op.by == By::Engine),
            count(&|op| matches!(op.outcome, Outcome::Failed(_))),
            self.seen.len()
        )
    }
}
