//! `memory.swap`, the limit of memory and swap together, where it follows from `memory.limit`. All
//! creations decide it here, and all updates of a runtime that knows what a container has, by
//! engines and by plugins: see [`LimitChange::derived_swap`].

use nri_api::proto::{FieldOwners, LinuxResources};
use nri_api::{ResourceField, resource_field};
use protobuf::Enum;
use serde_json::Value;

const LIMIT: &ResourceField = resource_field("memory.limit");
const SWAP: &ResourceField = resource_field("memory.swap");

/// Limits in bytes; -1 is unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryLimits {
    /// `memory.limit`.
    pub limit: Option<i64>,
    /// `memory.swap`.
    pub swap: Option<i64>,
}

impl MemoryLimits {
    /// Returns the limits of `linux.resources`.
    pub fn of_oci(resources: &Value) -> Self {
        let number = |field: &ResourceField| {
            field.path.iter().try_fold(resources, |value, key| value.get(key))?.as_i64()
        };
        Self { limit: number(LIMIT), swap: number(SWAP) }
    }

    /// Returns the limits of a message.
    pub fn of_message(resources: &LinuxResources) -> Self {
        let memory = &resources.memory;
        let (limit, swap) = (memory.limit.as_ref(), memory.swap.as_ref());
        Self { limit: limit.map(|v| v.value), swap: swap.map(|v| v.value) }
    }

    /// Returns those limits of a merged message that plugins own.
    pub fn of_plugins(merged: &LinuxResources, owners: &FieldOwners) -> Self {
        let is_owned = |field: &ResourceField| {
            field.owner.is_some_and(|owner| owners.simple.contains_key(&owner.value()))
        };
        let Self { limit, swap } = Self::of_message(merged);
        Self { limit: limit.filter(|_| is_owned(LIMIT)), swap: swap.filter(|_| is_owned(SWAP)) }
    }
}

/// A request to change limits.
#[derive(Debug, Clone, Copy, Default)]
pub struct LimitChange {
    /// The limits before; none at a creation.
    pub before: MemoryLimits,
    /// What the engine requests.
    pub by_engine: MemoryLimits,
    /// What plugins set, in their replies to the engine's request or on their own.
    pub by_plugins: MemoryLimits,
    /// Whether the container is being created.
    pub is_creation: bool,
    /// Whether plugins have set resources of the container.
    pub is_adjusted: bool,
}

impl LimitChange {
    /// Returns the limit of memory and swap that follows from the limit of memory; `None` if none
    /// does, so that it is what was given, or stays. `has_accounting` is whether the kernel limits
    /// swap.
    ///
    /// | `memory.limit` is set by | `memory.swap` is given by | before | `memory.swap` becomes |
    /// |---|---|---|---|
    /// | anyone | a plugin | any | what was given |
    /// | a plugin, at a creation | no plugin | any | `memory.limit` |
    /// | a plugin, where the engine updates `memory.limit` | no plugin | any | `memory.limit` |
    /// | the engine, or a plugin otherwise | the engine | any | what was given |
    /// | | neither | a limit, and memory gets none | none |
    /// | | neither | equal to `memory.limit` | `memory.limit`, if adjusted |
    /// | | neither | below the new `memory.limit` | `memory.limit`, if adjusted |
    /// | | neither | another limit, or none | unchanged |
    ///
    /// So a container that must not swap never may, and a limit that a plugin puts in the place of
    /// the engine's leaves none of the engine's swap. Runtimes refuse a limit of both that is below
    /// that of memory. Where the kernel does not limit swap, and no limit was given, none
    /// follows: runtimes would refuse it. Of a container that plugins have not adjusted, the engine
    /// and its runtime decide; a runtime whose memory limit is removed removes both.
    pub fn derived_swap(&self, has_accounting: impl FnOnce() -> bool) -> Option<i64> {
        let Self { before, by_engine, by_plugins, is_creation, is_adjusted } = *self;
        if by_plugins.swap.is_some() {
            return None;
        }
        let is_reply = is_creation || by_engine.limit.is_some();
        if let Some(limit) = by_plugins.limit.filter(|_| is_reply) {
            let is_given = by_engine.swap.or(before.swap).is_some();
            return (is_given || has_accounting()).then_some(limit);
        }
        if by_engine.swap.is_some() {
            return None;
        }
        let limit = by_plugins.limit.or(by_engine.limit)?;
        let swap = before.swap.filter(|swap| *swap > 0)?;
        let follows = limit < 0 || is_adjusted && (before.limit == Some(swap) || limit > swap);
        (follows && before.limit != Some(limit)).then_some(limit)
    }

    /// Whether the request has a limit of memory and swap.
    pub fn gives_swap(&self) -> bool {
        self.by_engine.swap.or(self.by_plugins.swap).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_follows_the_memory_limit_by_the_table() {
        let limits = |(limit, swap)| MemoryLimits { limit, swap };
        let (none, swap) = ((None, None), |n| (None, Some(n)));
        let (limit, both) = (|n| (Some(n), None), |limit, swap| (Some(limit), Some(swap)));
        // Before, engine, plugins, result with and without accounting of swap.
        for (before, engine, plugins, with, without) in [
            // A plugin gives both, or the swap limit.
            (both(10, 10), limit(30), both(20, 25), None, None),
            (both(10, 10), limit(30), swap(40), None, None),
            // A plugin replaces the limit of memory that the engine requests.
            (both(10, 10), both(100, 200), limit(20), Some(20), Some(20)),
            (both(10, 30), limit(100), limit(20), Some(20), Some(20)),
            (none, limit(100), limit(20), Some(20), None),
            (none, both(100, 200), limit(-1), Some(-1), Some(-1)),
            // The engine gives both, or the swap limit.
            (both(10, 10), both(20, 25), none, None, None),
            (both(10, 10), swap(25), none, None, None),
            (both(10, 30), swap(200), limit(20), None, None),
            // One of the two sets the limit of memory alone.
            (both(10, 10), limit(20), none, Some(20), Some(20)),
            (both(10, 10), none, limit(5), Some(5), Some(5)),
            (both(10, 10), none, limit(10), None, None),
            (both(10, 30), none, limit(20), None, None),
            (both(10, 30), none, limit(40), Some(40), Some(40)),
            (both(10, 30), limit(-1), none, Some(-1), Some(-1)),
            (both(10, -1), none, limit(20), None, None),
            (limit(10), none, limit(20), None, None),
            // Neither sets the limit of memory.
            (both(10, 10), none, none, None, None),
        ] {
            let (before, by_engine) = (limits(before), limits(engine));
            let by_plugins = limits(plugins);
            let change = LimitChange {
                before,
                by_engine,
                by_plugins,
                is_adjusted: true,
                ..LimitChange::default()
            };
            assert_eq!(change.derived_swap(|| true), with, "{change:?}");
            assert_eq!(change.derived_swap(|| false), without, "{change:?}");
        }
        for (before, engine, swap) in [
            (both(10, 10), limit(20), None),
            (both(10, 10), limit(5), None),
            (both(10, 10), limit(-1), Some(-1)),
        ] {
            let (before, by_engine) = (limits(before), limits(engine));
            let change = LimitChange { before, by_engine, ..LimitChange::default() };
            assert_eq!(change.derived_swap(|| true), swap, "not adjusted: {change:?}");
        }
        for (engine, plugins, with, without) in [
            (none, limit(20), Some(20), None),
            (both(100, 200), limit(20), Some(20), Some(20)),
            (limit(100), limit(-1), Some(-1), None),
            (limit(100), both(20, 30), None, None),
            (both(100, 100), swap(300), None, None),
            (both(100, 100), none, None, None),
        ] {
            let (by_engine, by_plugins) = (limits(engine), limits(plugins));
            let change =
                LimitChange { by_engine, by_plugins, is_creation: true, ..Default::default() };
            assert_eq!(change.derived_swap(|| true), with, "{change:?}");
            assert_eq!(change.derived_swap(|| false), without, "{change:?}");
        }
    }
}
