//! Split of a snapshot into `Synchronize` requests that fit the message size.
//!
//! Sizes are computed before sending; upstream NRI splits only after sending a message failed.

use nri_api::proto::SynchronizeRequest;
use protobuf::Message;

use crate::manager::Snapshot;

/// Size of `more`, which may be set in any request.
const MORE: usize = 2;

/// A pod or container of the snapshot that is larger than a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {id} takes {size} bytes, more than a message can hold")]
pub(crate) struct TooLarge {
    /// "pod" or "container".
    what: &'static str,
    /// Id of the pod or container.
    id: String,
    /// Size in bytes.
    size: usize,
}

/// Takes out of a snapshot the pods and containers that no request of `limit` bytes can hold, and
/// the containers of such pods.
pub(crate) fn take_large(snapshot: &mut Snapshot, limit: usize) -> Vec<TooLarge> {
    let limit = limit.saturating_sub(MORE);
    let mut large = Vec::new();
    let mut fits = |what, id: &str, size: u64| {
        let size = entry_size(size);
        if size > limit {
            large.push(TooLarge { what, id: id.to_owned(), size });
        }
        size <= limit
    };
    let mut pods = Vec::new();
    snapshot.pods.retain(|pod| {
        let fits = fits("pod", &pod.id, pod.compute_size());
        if !fits {
            pods.push(pod.id.clone());
        }
        fits
    });
    snapshot.containers.retain(|container| {
        !pods.contains(&container.pod_sandbox_id)
            && fits("container", &container.id, container.compute_size())
    });
    large
}

/// Splits a snapshot into requests of at most `limit` bytes each, pods first. An empty snapshot
/// takes one request. All requests but the last have `more` set. To be called after
/// [`take_large`].
pub(crate) fn split(snapshot: Snapshot, limit: usize) -> Vec<SynchronizeRequest> {
    let limit = limit.saturating_sub(MORE);
    let mut parts = vec![SynchronizeRequest::new()];
    let mut room = limit;
    let mut add = |size: u64| {
        let size = entry_size(size);
        let fits = size <= room;
        room = if fits { room - size } else { limit.saturating_sub(size) };
        fits
    };
    for pod in snapshot.pods {
        let fits = add(pod.compute_size());
        part_for(&mut parts, fits).pods.push(pod);
    }
    for container in snapshot.containers {
        let fits = add(container.compute_size());
        part_for(&mut parts, fits).containers.push(container);
    }
    if let Some((_last, others)) = parts.split_last_mut() {
        others.iter_mut().for_each(|part| part.more = true);
    }
    parts
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
        let split = split(original.clone(), limit);
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
        let parts = split(snapshot, limit);
        assert_eq!(parts.len(), 13); // 41 containers fit a message
        assert!(parts.iter().all(|p| p.compute_size() as usize <= limit));
    }

    /// One such container kept every plugin from connecting.
    #[test]
    fn what_is_larger_than_a_message_is_left_out() {
        let mut snapshot = snapshot(&[1, 5000], &[1, 5000, 1]);
        snapshot.containers[2].pod_sandbox_id = "p1".into();
        let large: Vec<_> =
            take_large(&mut snapshot, 4096).iter().map(ToString::to_string).collect();
        let more = "more than a message can hold";
        let expected = ["pod p1 takes 5010 bytes, ", "container c1 takes 5010 bytes, "]
            .map(|s| s.to_owned() + more);
        assert_eq!(large, expected);
        let left = (snapshot.pods.len(), snapshot.containers.len());
        assert_eq!((left, &*snapshot.containers[0].id), ((1, 1), "c0"));
        // Exactly as large as a message.
        let size = entry_size(snapshot.containers[0].compute_size()) + MORE;
        assert!(take_large(&mut snapshot, size).is_empty());
        assert_eq!(take_large(&mut snapshot, size - 1).len(), 2);
    }
}
