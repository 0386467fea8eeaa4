//! History of the updates and of the values read from the kernel, and the check that they are
//! consistent: there must be an order of the updates in which each value that was read is the value
//! of the latest update before the reading.
//!
//! If one update ended before another started, the order is known. Overlapping updates may have
//! been performed in any order.

use super::plan::{PLUGINS, is_invalid};
use crate::table::named;
use nri_integration::is_cgroup_v2;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
    time::Instant,
};

/// A field of a container: the number of the container, and the name of the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key(pub(super) usize, pub(super) &'static str);

/// Source of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Engine,
    Plugin(&'static str),
}

/// Reported result of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Succeeded,
    /// Failed, with the error.
    Failed(String),
    /// Not reported, because the update was part of a plugin's reply to an update that failed
    /// later.
    Unreported,
}

/// An update of one container.
#[derive(Debug, Clone)]
pub(super) struct Op {
    pub(super) by: By,
    pub(super) start: Instant,
    pub(super) end: Instant,
    pub(super) outcome: Outcome,
    pub(super) writes: BTreeMap<Key, Value>,
    /// Fields of `writes` whose values are from a plugin's reply to the engine's update.
    pub(super) replied: BTreeSet<Key>,
    /// Whether the update contains a value that the kernel refuses.
    pub(super) invalid: bool,
}

/// Value that was read from the kernel after an update that was reported as successful.
struct Reading {
    /// Number of the update.
    op: usize,
    key: Key,
    found: String,
    /// Start and end of the reading.
    when: Range<Instant>,
}

/// All updates and readings of a run.
#[derive(Default)]
pub(super) struct History {
    ops: Vec<Op>,
    readings: Vec<Reading>,
    /// Updates of each field, in the order in which they were recorded.
    updates_of: HashMap<Key, Vec<usize>>,
    /// Values that the engine requested, with the numbers of the updates.
    pub(super) requested: Vec<(Key, Value, usize)>,
}

impl History {
    /// Adds an update and returns its number.
    pub(super) fn add(&mut self, op: Op) -> usize {
        for key in op.writes.keys() {
            self.updates_of.entry(*key).or_default().push(self.ops.len());
        }
        self.ops.push(op);
        self.ops.len() - 1
    }

    pub(super) fn add_reading(&mut self, op: usize, key: Key, found: String, when: Range<Instant>) {
        self.readings.push(Reading { op, key, found, when });
    }

    pub(super) fn op(&self, n: usize) -> &Op {
        &self.ops[n]
    }

    /// Returns the plugin that owns a field after an update; `None` if the engine owns it.
    pub(super) fn owner(&self, n: usize, key: Key) -> Option<&'static str> {
        match self.ops[n].by {
            By::Plugin(name) => Some(name),
            By::Engine if self.ops[n].replied.contains(&key) => Some(PLUGINS[0]),
            By::Engine => None,
        }
    }

    /// Adds the plugin's replies: finds, for each UpdateContainer in the plugin's journal, the
    /// engine's update that caused it, and adds the values of the reply to this update.
    pub(super) fn add_replies(&mut self, journal: &[Value], ids: &[String]) {
        let number_of: HashMap<&str, usize> =
            ids.iter().enumerate().map(|(n, id)| (id.as_str(), n)).collect();
        for (n, op) in self.ops.iter().enumerate().filter(|(_, op)| op.by == By::Engine) {
            self.requested.extend(op.writes.iter().map(|(key, value)| (*key, value.clone(), n)));
        }
        for entry in journal.iter().filter(|e| e["event"] == "UpdateContainer") {
            let container = number_of[entry["container_id"].as_str().expect("the entry has an id")];
            let n = self.find_engine_update(container, &entry["resources"]);
            // `writes` does not contain an invalid value that the engine requested. nrid records
            // the invalid value as the engine's request if the reply replaces it by a valid one.
            let cpus = named("cpu.cpus").value_in(&entry["resources"]);
            self.requested.extend(cpus.map(|cpus| (Key(container, "cpu.cpus"), cpus, n)));
            for update in entry["updates"].as_array().into_iter().flatten() {
                let updated =
                    number_of[update["containerId"].as_str().expect("the entry has an id")];
                self.add_reply(n, updated, updated == container, &update["linux"]["resources"]);
            }
        }
    }

    /// Finds the engine's update for which plugins received this request.
    fn find_engine_update(&self, container: usize, request: &Value) -> usize {
        let is_match = |op: &&usize| {
            let op = &self.ops[**op];
            let is_requested = |(key, value): (&Key, &Value)| {
                key.0 == container && named(key.1).value_in(request).as_ref() == Some(value)
            };
            op.by == By::Engine && !op.writes.is_empty() && op.writes.iter().all(is_requested)
        };
        let fields = self
            .updates_of
            .iter()
            .filter(|(key, _)| key.0 == container && named(key.1).value_in(request).is_some());
        let found = fields.flat_map(|(_, ops)| ops).find(is_match);
        *found.unwrap_or_else(|| {
            panic!(
                "plugins received an update of container {container} that the engine did not \
                 request: {request}"
            )
        })
    }

    /// Adds the values of a reply to the engine's update `n`. `is_own` is true if the values are
    /// for the container of this update; otherwise they update another container.
    fn add_reply(&mut self, n: usize, container: usize, is_own: bool, resources: &Value) {
        let writes: BTreeMap<Key, Value> = super::plan::ALL
            .iter()
            .filter_map(|name| Some((Key(container, name), named(name).value_in(resources)?)))
            .collect();
        let cpus = writes.get(&Key(container, "cpu.cpus"));
        let invalid = cpus.is_some_and(is_invalid);
        if is_own {
            // The reply may replace an invalid value, or contain one.
            if cpus.is_some() {
                self.ops[n].invalid = invalid;
            }
            for (key, value) in writes {
                let ops = self.updates_of.entry(key).or_default();
                if !ops.contains(&n) {
                    ops.push(n);
                }
                self.ops[n].writes.insert(key, value);
                self.ops[n].replied.insert(key);
            }
            return;
        }
        self.ops[n].invalid |= invalid;
        let outcome = match (&self.ops[n].outcome, invalid) {
            (_, true) => Outcome::Failed("invalid".to_owned()),
            (Outcome::Succeeded, _) => Outcome::Succeeded,
            _ => Outcome::Unreported,
        };
        let Op { start, end, .. } = self.ops[n];
        let by = By::Plugin(PLUGINS[0]);
        self.add(Op { by, start, end, outcome, writes, replied: BTreeSet::new(), invalid });
    }

    /// Checks that invalid updates were reported as failed, and all others as successful.
    pub(super) fn check_outcomes(&self) {
        let wrong = self.ops.iter().filter(|op| match &op.outcome {
            Outcome::Succeeded => op.invalid,
            Outcome::Failed(_) => !op.invalid,
            Outcome::Unreported => false,
        });
        let wrong: Vec<_> = wrong.collect();
        assert!(
            wrong.is_empty(),
            "{} updates with a wrong result: {:?}",
            wrong.len(),
            &wrong[..wrong.len().min(5)]
        );
    }

    /// Checks that the value read after each update is the value of this update or of an update
    /// that overlapped with it or followed it.
    pub(super) fn check_readings(&self) {
        let mut unexplained = Vec::new();
        for reading in &self.readings {
            let after = self.ops[reading.op].start;
            let explains = |n: &usize| {
                let op = &self.ops[*n];
                // A failed update is undone at its end. An update of another container, which a
                // reply requested, is not undone if the engine's update fails later.
                let effective =
                    !matches!(op.outcome, Outcome::Failed(_)) || op.end > reading.when.start;
                (*n == reading.op || op.end > after) && op.start < reading.when.end && effective
            };
            // In an update, the runtime first writes the values in its state; then nrid restores
            // the fields that the runtime cannot update. In between, a reading may be any value.
            let is_intermediate = !named(reading.key.1).updatable && self.is_being_updated(reading);
            if !is_intermediate && !self.writers(reading.key, &reading.found).iter().any(explains) {
                unexplained.push(format!(
                    "{:?} is {:?} after {:?}\nupdates:\n{}",
                    reading.key,
                    reading.found,
                    self.ops[reading.op],
                    self.timeline(reading.key, self.ops[reading.op].start)
                ));
            }
        }
        assert!(
            unexplained.is_empty(),
            "{} readings that no order of the updates explains\n{}",
            unexplained.len(),
            unexplained[..unexplained.len().min(3)].join("\n\n")
        );
    }

    /// Whether an update of the container overlaps with the reading.
    fn is_being_updated(&self, reading: &Reading) -> bool {
        let overlaps = |op: &Op| op.start < reading.when.end && op.end > reading.when.start;
        self.ops.iter().any(|op| overlaps(op) && op.writes.keys().any(|key| key.0 == reading.key.0))
    }

    /// Returns the updates that may be the last update of a field: no successful update of the
    /// field started after they had ended.
    pub(super) fn last(&self, key: Key) -> Vec<usize> {
        let all = &self.updates_of[&key];
        let succeeded = |n: &&usize| self.ops[**n].outcome == Outcome::Succeeded;
        let latest = all
            .iter()
            .filter(succeeded)
            .map(|n| self.ops[*n].start)
            .max()
            .expect("the creation is an update");
        let may_be_last = |n: &&usize| {
            let op = &self.ops[**n];
            !matches!(op.outcome, Outcome::Failed(_)) && op.end >= latest
        };
        all.iter().filter(may_be_last).copied().collect()
    }

    /// Returns the values of the updates that may be the engine's last update of a field.
    pub(super) fn last_requested(&self, key: Key) -> Vec<&Value> {
        let succeeded = |(k, _, n): &&(Key, Value, usize)| {
            *k == key && self.ops[*n].outcome == Outcome::Succeeded
        };
        let latest =
            self.requested.iter().filter(succeeded).map(|(.., n)| self.ops[*n].start).max();
        let may_be_last = |n: usize| latest.is_none_or(|latest| self.ops[n].end >= latest);
        self.requested
            .iter()
            .filter(succeeded)
            .filter(|(.., n)| may_be_last(*n))
            .map(|(_, value, _)| value)
            .collect()
    }

    /// Returns the updates after which the kernel would have this value.
    fn writers(&self, key: Key, found: &str) -> Vec<usize> {
        let writes = |n: &&usize| {
            let value = &self.ops[**n].writes[&key];
            self.expected(key, value).iter().any(|e| e == found)
        };
        self.updates_of[&key].iter().filter(writes).copied().collect()
    }

    /// Returns the values in the kernel's file that are correct for a requested value. On cgroup
    /// v2, the value of swap depends on the memory limit, which any of the updates may have set.
    pub(super) fn expected(&self, key: Key, value: &Value) -> Vec<String> {
        let field = named(key.1);
        if key.1 != "memory.swap" || !is_cgroup_v2() {
            return field.expected(value, &Default::default());
        }
        let limits = self.updates_of.get(&Key(key.0, "memory.limit")).into_iter().flatten();
        let limit = |n: &usize| self.ops[*n].writes[&Key(key.0, "memory.limit")].clone();
        limits.flat_map(|n| field.expected(value, &[("memory.limit", limit(n))].into())).collect()
    }

    /// Describes all updates of a field, for failure messages. Times are relative to `origin`.
    pub(super) fn timeline(&self, key: Key, origin: Instant) -> String {
        let ms = |t: Instant| match t.checked_duration_since(origin) {
            Some(after) => format!("{:.1}", after.as_secs_f64() * 1e3),
            None => format!("-{:.1}", (origin - t).as_secs_f64() * 1e3),
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
        self.updates_of[&key].iter().map(line).collect::<Vec<_>>().join("\n")
    }

    pub(super) fn summary(&self) -> String {
        let count = |f: &dyn Fn(&Op) -> bool| self.ops.iter().filter(|op| f(op)).count();
        format!(
            "{} updates ({} by the engine, {} failed), {} readings",
            self.ops.len(),
            count(&|op| op.by == By::Engine),
            count(&|op| matches!(op.outcome, Outcome::Failed(_))),
            self.readings.len()
        )
    }
}
