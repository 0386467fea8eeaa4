//! Random choices: containers, fields and values. Most fields get each value only once, so that a
//! value identifies its update.

use crate::{field::join, table::named};
use nri_integration::{systemd, unified_cgroups};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

/// Plugins that request updates.
pub(super) const PLUGINS: [&str; 2] = ["10-a", "20-b"];

/// First of the CPUs that no test machine has, so that the kernel refuses an update with one.
const NO_CPU: u64 = 4000;
/// Percentage of invalid updates.
const INVALID: usize = 4;
/// Fields with repeated values. Only plugins set them, since a repeated value of the engine is no
/// request.
pub(super) const REPEATED: [&str; 2] = ["cpu.cpus", "memory.swappiness"];
const MIB: u64 = 1 << 20;
/// Fields with values in this plan.
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

/// The generator of a run's choices.
pub(super) struct Plan {
    state: AtomicU64,
    values: AtomicU64,
    containers: usize,
    /// Names of the fields that the host supports.
    pub(super) fields: Vec<&'static str>,
}

/// A chosen update.
pub(super) struct Choice {
    pub(super) container: usize,
    pub(super) writes: Vec<(&'static str, Value)>,
    /// CPU that does not exist, in an update that must fail.
    pub(super) invalid_cpu: Option<String>,
}

/// Whether an update with these CPUs fails.
pub(super) fn is_invalid(cpus: &Value) -> bool {
    cpus.as_str().and_then(|text| text.parse::<u64>().ok()).is_some_and(|cpu| cpu >= NO_CPU)
}

impl Choice {
    /// Returns the message of the update, for the container of this id.
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
    /// Creates a plan with those of the `available` fields that are in [`ALL`].
    pub(super) fn new(seed: u64, containers: usize, available: Vec<&'static str>) -> Self {
        let state = AtomicU64::new(seed);
        let known = |name: &&str| ALL.contains(name);
        Self {
            state,
            values: AtomicU64::new(1),
            containers,
            fields: available.into_iter().filter(known).collect(),
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

    /// Chooses an update by the engine: of fields that runtimes can update, with new values.
    pub(super) fn engine_update(&self) -> Choice {
        // On cgroup v2, runc refuses a swap limit without a memory limit, unless a plugin's reply
        // changes the update.
        let lone_swap = |name: &str| name == "memory.swap" && unified_cgroups();
        self.choose(
            |name| named(name).updatable && !REPEATED.contains(&name) && !lone_swap(name),
            3,
            true,
        )
    }

    /// Chooses an unsolicited update by a plugin.
    pub(super) fn plugin_update(&self) -> Choice {
        self.choose(|_| true, 3, true)
    }

    /// Chooses a plugin's change of the engine's update.
    pub(super) fn own_reply(&self) -> Choice {
        self.choose(|name| !matches!(name, "memory.reservation" | "hugepageLimits"), 2, false)
    }

    /// Chooses an update of another container in the same reply. It may be the same container, so
    /// its fields are other ones than those of [`Self::own_reply`].
    pub(super) fn other_reply(&self) -> Choice {
        self.choose(|name| matches!(name, "memory.reservation" | "hugepageLimits"), 2, true)
    }

    fn choose(&self, fit: impl Fn(&'static str) -> bool, most: usize, may_fail: bool) -> Choice {
        let mut left: Vec<_> = self.fields.iter().copied().filter(|name| fit(name)).collect();
        let mut writes: Vec<(&'static str, Value)> = Vec::new();
        for _ in 0..self.below(most) + 1 {
            if left.is_empty() {
                break;
            }
            let name = left.swap_remove(self.below(left.len()));
            let n = match REPEATED.contains(&name) {
                true => self.below(1000) as u64,
                false => self.values.fetch_add(1, Ordering::Relaxed),
            };
            writes.extend(value(name, n).map(|value| (name, value)));
        }
        let fails = may_fail && self.below(100) < INVALID && self.fields.contains(&"cpu.cpus");
        let invalid_cpu = fails.then(|| {
            writes.retain(|(name, _)| *name != "cpu.cpus");
            // A new CPU each time, since a repeated request of the engine is no request.
            (NO_CPU + self.values.fetch_add(1, Ordering::Relaxed)).to_string()
        });
        Choice { container: self.below(self.containers), writes, invalid_cpu }
    }
}

/// Returns the `n`th value of a field; the engine requests the one of 0 at the creation.
fn value(name: &str, n: u64) -> Option<Value> {
    Some(match name {
        "pids.limit" => (1000 + n).into(),
        "cpu.shares" => (1000 + n).into(),
        // systemd rounds to whole percents of a CPU before the runtime writes the exact value, so a
        // reading of any other value could be the rounded one.
        "cpu.quota" => (10_000 + n * if systemd() { 1000 } else { 1 }).into(),
        "memory.limit" => (64 * MIB + n * 4096).into(),
        "memory.reservation" => (16 * MIB + n * 4096).into(),
        "memory.swap" => (2048 * MIB + n * 4096).into(),
        "hugepageLimits" => ((n + 1) * 2 * MIB).into(),
        "memory.swappiness" => (1 + n % 100).into(),
        "cpu.cpus" => ["0", "1", "0-1"][n as usize % 3].into(),
        _ => return None,
    })
}
