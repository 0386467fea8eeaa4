//! Evictions, one per container. If several plugins evict the same container, the first reason that
//! is not empty is kept.

use nri_api::PluginId;
use nri_api::proto::ContainerEviction;
use std::collections::{BTreeMap, HashMap};

/// Adds the evictions of one reply of `plugin`. `evictors` gets the first plugin of each container.
pub(crate) fn add(
    all: &mut Vec<ContainerEviction>,
    evictors: &mut BTreeMap<String, PluginId>,
    plugin: &PluginId,
    requested: Vec<ContainerEviction>,
) {
    let mut positions: HashMap<String, usize> =
        all.iter().enumerate().map(|(at, e)| (e.container_id.clone(), at)).collect();
    for eviction in requested {
        match positions.get(&eviction.container_id).map(|at| &mut all[*at]) {
            None => {
                positions.insert(eviction.container_id.clone(), all.len());
                evictors.insert(eviction.container_id.clone(), plugin.clone());
                all.push(eviction);
            }
            Some(existing) if existing.reason.is_empty() => existing.reason = eviction.reason,
            Some(_) => {}
        }
    }
}
