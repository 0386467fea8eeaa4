//! Split of a snapshot into `Synchronize` requests that fit the message size.
//!
//! Sizes are computed before sending; upstream NRI splits only after sending a message failed.

use nri_api::proto::SynchronizeRequest;
use protobuf::Message;

use crate::manager::Snapshot;

/// A pod or container of the snapshot that is larger than a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {id} takes {size} bytes, more than a message can hold")]
pub struct TooLarge {
    /// "pod" or "container".
    pub what: &'static str,
    /// Id of the pod or container.
    pub id: String,
    /// Size in bytes.
    pub size: usize,
}

/// Splits a snapshot into requests of at most `limit` bytes each, pods first. An empty snapshot
/// takes one request. All requests but the last have `more` set.
pub(crate) fn split(snapshot: Snapshot, limit: usize) -> Result<Vec<SynchronizeRequest>, TooLarge> {
    // Two bytes are reserved for `more`, which may be set in any part.
    let limit = limit.saturating_sub(2);
    let mut parts = vec![SynchronizeRequest::new()];
    let mut room = limit;
    let mut add = |what, id: &str, size: u64| {
        let size = entry_size(size);
        if size > limit {
            return Err(TooLarge { what, id: id.to_owned(), size });
        }
        let fits = size <= room;
        room = if fits { room - size } else { limit - size };
        Ok(fits)
    };
    for pod in snapshot.pods {
        let fits = add("pod", &pod.id, pod.compute_size())?;
        part_for(&mut parts, fits).pods.push(pod);
    }
    for container in snapshot.containers {
        let fits = add("container", &container.id, container.compute_size())?;
        part_for(&mut parts, fits).containers.push(container);
    }
    if let Some((_last, others)) = parts.split_last_mut() {
        others.iter_mut().for_each(|part| part.more = true);
    }
    Ok(parts)
}

/// Returns the snapshot that was split into these parts.
pub(crate) fn join(parts: Vec<SynchronizeRequest>) -> Snapshot {
    let (mut pods, mut containers) = (Vec::new(), Vec::new());
    for part in parts {
        pods.extend(part.pods);
        containers.extend(part.containers);
    }
    Snapshot { pods, containers }
}

/// Returns the part for the next entry: the last part if the entry `fits`, otherwise a new part.
fn part_for(parts: &mut Vec<SynchronizeRequest>, fits: bool) -> &mut SynchronizeRequest {
    if !fits || parts.is_empty() {
        parts.push(SynchronizeRequest::new());
    }
    let last = parts.len() - 1;
    &mut parts[last]
}

/// Size of an entry of a repeated field: a tag of one byte, the length, the message.
fn entry_size(message: u64) -> usize {
    let length = (u64::BITS - message.leading_zeros()).max(1).div_ceil(7);
    usize::try_from(1 + u64::from(length) + message).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_api::proto::{Container, PodSandbox};

    fn snapshot(pods: &[usize], containers: &[usize]) -> Snapshot {
        let pod = |(i, &n): (usize, &usize)| PodSandbox {
            id: format!("p{i}"),
            name: "n".repeat(n),
            ..Default::default()
        };
        let container = |(i, &n): (usize, &usize)| Container {
            id: format!("c{i}"),
            name: "n".repeat(n),
            ..Default::default()
        };
        Snapshot {
            pods: pods.iter().enumerate().map(pod).collect(),
            containers: containers.iter().enumerate().map(container).collect(),
        }
    }

    /// Splits a snapshot and checks size, `more` and completeness. `pods` and `containers` are the
    /// lengths of their names; `parts` are the expected numbers of pods and containers.
    fn check(pods: &[usize], containers: &[usize], limit: usize, parts: &[(usize, usize)]) {
        let original = snapshot(pods, containers);
        let split = split(original.clone(), limit).unwrap();
        assert_eq!(
            split.iter().map(|p| (p.pods.len(), p.containers.len())).collect::<Vec<_>>(),
            parts
        );
        for (i, part) in split.iter().enumerate() {
            assert_eq!(part.more, i + 1 < split.len());
            assert!(
                part.compute_size() as usize <= limit,
                "part {i} of {} bytes",
                part.compute_size()
            );
        }
        assert_eq!(join(split), original);
    }

    #[test]
    fn a_snapshot_is_split_only_when_it_exceeds_the_limit() {
        check(&[], &[], 100, &[(0, 0)]);
        check(&[10, 10], &[10, 10], 1000, &[(2, 2)]);
        // An entry takes 18 bytes: id 4, name 12, tag and length 2. A message takes 2 for `more`.
        check(&[10, 10], &[10, 10], 4 * 18 + 2, &[(2, 2)]);
        check(&[10, 10], &[10, 10], 4 * 18 + 1, &[(2, 1), (0, 1)]);
        check(&[10, 10], &[10, 10], 18 + 2, &[(1, 0), (1, 0), (0, 1), (0, 1)]);
    }

    #[test]
    fn length_prefixes_count_towards_the_limit() {
        // The length takes a byte more from 128 and from 16384 bytes on.
        for name in [100, 119, 120, 121, 122, 123, 124, 16370, 16375, 16376, 16377, 16378, 16379] {
            let size = entry_size(snapshot(&[], &[name]).containers[0].compute_size());
            check(&[], &[name, name], 2 * size + 2, &[(0, 2)]);
            check(&[], &[name, name], 2 * size + 1, &[(0, 1), (0, 1)]);
        }
    }

    #[test]
    fn many_large_containers_take_several_messages() {
        let limit = 4 << 20;
        let snapshot = snapshot(&[500; 3], &[100_000; 500]);
        let parts = split(snapshot, limit).unwrap();
        assert_eq!(parts.len(), 13); // 41 containers fit a message
        assert!(parts.iter().all(|p| p.compute_size() as usize <= limit));
    }

    #[test]
    fn a_container_larger_than_a_message_is_an_error() {
        let error = split(snapshot(&[1], &[1, 5000]), 4096).unwrap_err();
        assert_eq!(
            error.to_string(),
            "container c1 takes 5010 bytes, more than a message can hold"
        );
    }
}
