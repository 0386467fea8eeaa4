//! Evictions: one per container. Several plugins may ask for the same; the first reason given
//! stands.

use nri_api::proto::ContainerEviction;
use std::collections::HashMap;

/// Adds what one reply asks for.
pub(crate) fn add(all: &mut Vec<ContainerEviction>, asked: Vec<ContainerEviction>) {
    let mut places: HashMap<String, usize> =
        all.iter().enumerate().map(|(at, e)| (e.container_id.clone(), at)).collect();
    for eviction in asked {
        match places.get(&eviction.container_id).map(|at| &mut all[*at]) {
            None => {
                places.insert(eviction.container_id.clone(), all.len());
                all.push(eviction);
            }
            Some(present) if present.reason.is_empty() => present.reason = eviction.reason,
            Some(_) => {}
        }
    }
}
