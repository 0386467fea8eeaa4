//! Random choices of containers, fields and values for updates. Most fields get each value only
//! once, so that a value in the kernel identifies the update that set it.

use crate::{field::join, table::named};
use nri_integration::{is_cgroup_v2, uses_systemd};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

/// Plugins that request updates.
pub(super) const PLUGINS: [&str; 2] = ["10-a", "20-b"];

/// No test machine has a CPU with this or a higher number, so the kernel refuses an update that
/// contains such a number.
const NO_CPU: u64 = 4000;
/// Percentage of invalid updates: few, so that most updates change values.
const INVALID_PERCENT: usize = 4;
/// Fields with so few values that the updates repeat them. Only plugins set these fields, because a
/// value that the engine repeats does not count as a request.
pub(super) const REPEATED: [&str; 2] = ["cpu.cpus", "memory.swappiness"];
const MIB: u64 = 1 << 20;
/// Fields that the updates set.
pub(super) const ALL: [&str; 9] = [
    "pids.limit",
    "cpu.shares",
    "cpu.quota",
    "memory.limit",
    "memory.reservation",
    "memory.swap",
    "hugepageLimits",
    "memory.swappiness",
    "cpu.cpus",
];

/// The random choices of a run.
pub(super) struct Plan {
    /// State of the random number generator.
    state: AtomicU64,
    /// Number of the next unique value.
    next_value: AtomicU64,
    containers: usize,
    /// Names of the fields that the host supports.
    pub(super) fields: Vec<&'static str>,
}

/// A chosen update.
pub(super) struct Choice {
    pub(super) container: usize,
    pub(super) writes: Vec<(&'static str, Value)>,
    /// Number of a CPU that does not exist. An update with such a number must fail.
    pub(super) invalid_cpu: Option<String>,
}

/// Whether the kernel refuses an update with these CPUs.
pub(super) fn is_invalid(cpus: &Value) -> bool {
    cpus.as_str().and_then(|text| text.parse::<u64>().ok()).is_some_and(|cpu| cpu >= NO_CPU)
}

impl Choice {
    /// Returns the message `ContainerUpdate` for the container of this id.
    pub(super) fn message(&self, id: &str) -> Value {
        let mut resources =
            join(self.writes.iter().map(|(name, value)| named(name).message(value)));
        if let Some(cpus) = &self.invalid_cpu {
            resources["cpu"]["cpus"] = cpus.as_str().into();
        }
        json!({"containerId": id, "linux": {"resources": resources}})
    }
}

impl Plan {
    /// Creates a plan with the `available` fields that are in [`ALL`].
    pub(super) fn new(seed: u64, containers: usize, available: Vec<&'static str>) -> Self {
        let state = AtomicU64::new(seed);
        let has_values = |name: &&str| ALL.contains(name);
        Self {
            state,
            next_value: AtomicU64::new(1),
            containers,
            fields: available.into_iter().filter(has_values).collect(),
        }
    }

    /// Returns a random number below `n`.
    pub(super) fn below(&self, n: usize) -> usize {
        // splitmix64
        let mut z = self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }

    /// Returns the value that the engine requests at the creation.
    pub(super) fn initial(&self, name: &'static str) -> Value {
        value(name, 0).expect("each field of a plan has values")
    }

    /// Chooses an update by the engine: fields that runtimes can update, with values that the
    /// engine has not requested before.
    pub(super) fn engine_update(&self) -> Choice {
        // On cgroup v2, runc refuses a swap limit without a memory limit, unless a plugin's reply
        // changes the update.
        let is_swap_on_v2 = |name: &str| name == "memory.swap" && is_cgroup_v2();
        self.choose(
            |name| named(name).updatable && !REPEATED.contains(&name) && !is_swap_on_v2(name),
            3,
            true,
        )
    }

    /// Chooses an unsolicited update by a plugin.
    pub(super) fn plugin_update(&self) -> Choice {
        self.choose(|_| true, 3, true)
    }

    /// Chooses the part of a plugin's reply that changes the engine's update. A limit of memory is
    /// with one of swap, which would follow it otherwise.
    pub(super) fn own_reply(&self) -> Choice {
        let is_own = |name: &str| !matches!(name, "memory.reservation" | "hugepageLimits");
        let mut choice = self.choose(is_own, 2, false);
        let has = |wanted: &str| choice.writes.iter().any(|(name, _)| *name == wanted);
        if has("memory.limit") && !has("memory.swap") && self.fields.contains(&"memory.swap") {
            let n = self.next_value.fetch_add(1, Ordering::Relaxed);
            choice.writes.extend(value("memory.swap", n).map(|value| ("memory.swap", value)));
        }
        choice
    }

    /// Chooses the part of a plugin's reply that updates a container independently of the engine's
    /// update. Its fields are never those of [`Self::own_reply`], because the chosen container may
    /// be the one that the engine updates.
    pub(super) fn other_reply(&self) -> Choice {
        self.choose(|name| matches!(name, "memory.reservation" | "hugepageLimits"), 2, true)
    }

    /// Chooses a container and up to `max_fields` fields for which `is_allowed` returns true. If
    /// `may_fail`, some choices are invalid.
    fn choose(
        &self,
        is_allowed: impl Fn(&'static str) -> bool,
        max_fields: usize,
        may_fail: bool,
    ) -> Choice {
        let mut names: Vec<_> =
            self.fields.iter().copied().filter(|name| is_allowed(name)).collect();
        let mut writes: Vec<(&'static str, Value)> = Vec::new();
        for _ in 0..self.below(max_fields) + 1 {
            if names.is_empty() {
                break;
            }
            let name = names.swap_remove(self.below(names.len()));
            let n = match REPEATED.contains(&name) {
                true => self.below(1000) as u64,
                false => self.next_value.fetch_add(1, Ordering::Relaxed),
            };
            writes.extend(value(name, n).map(|value| (name, value)));
        }
        let fails =
            may_fail && self.below(100) < INVALID_PERCENT && self.fields.contains(&"cpu.cpus");
        let invalid_cpu = fails.then(|| {
            writes.retain(|(name, _)| *name != "cpu.cpus");
            // A new number each time, by which the request is found in the journal.
            (NO_CPU + self.next_value.fetch_add(1, Ordering::Relaxed)).to_string()
        });
        Choice { container: self.below(self.containers), writes, invalid_cpu }
    }
}

/// Returns the `n`th value of a field. The engine requests value 0 at the creation.
fn value(name: &str, n: u64) -> Option<Value> {
    Some(match name {
        "pids.limit" => (1000 + n).into(),
        "cpu.shares" => (1000 + n).into(),
        // With systemd, whole percents of a CPU: systemd writes a quota that is rounded to a whole
        // percent, then the runtime writes the exact value. A check in between would read the
        // rounded value.
        "cpu.quota" => (10_000 + n * if uses_systemd() { 1000 } else { 1 }).into(),
        "memory.limit" => (64 * MIB + n * 4096).into(),
        "memory.reservation" => (16 * MIB + n * 4096).into(),
        "memory.swap" => (2048 * MIB + n * 4096).into(),
        "hugepageLimits" => ((n + 1) * 2 * MIB).into(),
        "memory.swappiness" => (1 + n % 100).into(),
        "cpu.cpus" => ["0", "1", "0-1"][n as usize % 3].into(),
        _ => return None,
    })
}
