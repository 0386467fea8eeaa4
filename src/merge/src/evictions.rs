//! Evictions, one per container. Several plugins may request the same; the first reason is kept.

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
            Some(present) if present.reason.is_empty() => present.reason = eviction.reason,
            Some(_) => {}
        }
    }
}
