//! Evictions: one per container. Several plugins may ask for the same; the first reason given stands.

use nri_api::proto::ContainerEviction;

/// Adds what one reply asks for.
pub(crate) fn add(all: &mut Vec<ContainerEviction>, asked: Vec<ContainerEviction>) {
    for eviction in asked {
        match all.iter_mut().find(|e| e.container_id == eviction.container_id) {
            None => all.push(eviction),
            Some(present) if present.reason.is_empty() => present.reason = eviction.reason,
            Some(_) => {}
        }
    }
}
