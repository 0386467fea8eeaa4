//! Evictions, one per container. If several plugins evict the same container, the first reason that
//! is not empty is kept.

use nri_api::proto::ContainerEviction;
use std::collections::HashMap;

/// Adds the evictions of one reply.
pub(crate) fn add(all: &mut Vec<ContainerEviction>, requested: Vec<ContainerEviction>) {
    let mut positions: HashMap<String, usize> =
        all.iter().enumerate().map(|(at, e)| (e.container_id.clone(), at)).collect();
    for eviction in requested {
        match positions.get(&eviction.container_id).map(|at| &mut all[*at]) {
            None => {
                positions.insert(eviction.container_id.clone(), all.len());
                all.push(eviction);
            }
            Some(existing) if existing.reason.is_empty() => existing.reason = eviction.reason,
            Some(_) => {}
        }
    }
}
