//! What is chosen at random: containers, fields, values. A value of most fields is used once only,
//! so that it tells which update it is of.

use crate::{field::join, table::named};
use nri_integration::{systemd, unified_cgroups};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

/// Plugins that ask for updates.
pub(super) const PLUGINS: [&str; 2] = ["10-a", "20-b"];

/// No machine of ours has this CPU, nor any after it: an update with one fails, in the kernel.
const NO_CPU: u64 = 4000;
/// Of a hundred updates, how many ask for what cannot be.
const BAD: usize = 4;
/// Fields whose values are used again; only plugins set them, since what the engine requested
/// before is no request.
pub(super) const USED_AGAIN: [&str; 2] = ["cpu.cpus", "memory.swappiness"];
const MIB: u64 = 1 << 20;
/// The fields for which there are values.
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

/// The choices of a run.
pub(super) struct Plan {
    state: AtomicU64,
    values: AtomicU64,
    containers: usize,
    /// Fields that there are, by name.
    pub(super) fields: Vec<&'static str>,
}

/// An update.
pub(super) struct Choice {
    pub(super) container: usize,
    pub(super) writes: Vec<(&'static str, Value)>,
    /// It is to fail: this CPU is not there.
    pub(super) bad: Option<String>,
}

/// Whether an update with these CPUs fails.
pub(super) fn is_bad(cpus: &Value) -> bool {
    cpus.as_str().and_then(|text| text.parse::<u64>().ok()).is_some_and(|cpu| cpu >= NO_CPU)
}

impl Choice {
    /// As a message, for a container of this id.
    pub(super) fn message(&self, id: &str) -> Value {
        let mut resources =
            join(self.writes.iter().map(|(name, value)| named(name).message(value)));
        if let Some(cpus) = &self.bad {
            resources["cpu"]["cpus"] = cpus.as_str().into();
        }
        json!({"containerId": id, "linux": {"resources": resources}})
    }
}

impl Plan {
    /// The fields are those of [`ALL`] that are there.
    pub(super) fn new(seed: u64, containers: usize, there: Vec<&'static str>) -> Self {
        let state = AtomicU64::new(seed);
        let known = |name: &&str| ALL.contains(name);
        Self {
            state,
            values: AtomicU64::new(1),
            containers,
            fields: there.into_iter().filter(known).collect(),
        }
    }

    /// A number below `n`.
    pub(super) fn below(&self, n: usize) -> usize {
        // splitmix64
        let mut z = self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }

    /// What the engine requests at the creation.
    pub(super) fn first(&self, name: &'static str) -> Value {
        value(name, 0).expect("only such fields are taken")
    }

    /// An update by the engine: what runtimes can, of values that it has not requested before.
    pub(super) fn engines(&self) -> Choice {
        // With cgroup v2 runc refuses a limit of swap without one of memory, where plugins have no
        // part in the update.
        let lone_swap = |name: &str| name == "memory.swap" && unified_cgroups();
        self.choose(
            |name| named(name).updatable && !USED_AGAIN.contains(&name) && !lone_swap(name),
            3,
            true,
        )
    }

    /// By a plugin, out of itself.
    pub(super) fn plugins(&self) -> Choice {
        self.choose(|_| true, 3, true)
    }

    /// A change of the engine's update.
    pub(super) fn own_answer(&self) -> Choice {
        self.choose(|name| !matches!(name, "memory.reservation" | "hugepageLimits"), 2, false)
    }

    /// An update of another container, together with that. It may be the same container: then of
    /// fields that the answer to its update does not have.
    pub(super) fn other_answer(&self) -> Choice {
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
            let n = match USED_AGAIN.contains(&name) {
                true => self.below(1000) as u64,
                false => self.values.fetch_add(1, Ordering::Relaxed),
            };
            writes.extend(value(name, n).map(|value| (name, value)));
        }
        let fails = may_fail && self.below(100) < BAD && self.fields.contains(&"cpu.cpus");
        let bad = fails.then(|| {
            writes.retain(|(name, _)| *name != "cpu.cpus");
            // Another one each time: what the engine requests again is no request.
            (NO_CPU + self.values.fetch_add(1, Ordering::Relaxed)).to_string()
        });
        Choice { container: self.below(self.containers), writes, bad }
    }
}

/// The `n`th value of a field; that of 0 is the engine's at the creation.
fn value(name: &str, n: u64) -> Option<Value> {
    Some(match name {
        "pids.limit" => (1000 + n).into(),
        "cpu.shares" => (1000 + n).into(),
        // systemd rounds to whole percents of a CPU, and the runtime writes the value after it:
        // others would be seen in between.
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
