//! Tests of a plugin that floods `nrid` with updates.

use crate::{
    containers::{Sleep, create_and_start, perform},
    create::{bundle, create},
    node::Node,
    size::multiply,
    wire_plugin::{UpdatesAtCreation, connect, wait_until_active},
};
use nri_api::proto::{ContainerUpdate, UpdateContainersRequest};
use nri_control::{Reply, Request, Verb};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};
use tokio::task::{JoinSet, spawn_blocking};

/// Number of requests that the plugin sends at once: the limit of `nrid`.
const REQUESTS: usize = 32;

/// Number of updates in each request: the limit of `nrid`.
const UPDATES: usize = 16_384;

/// Number of existing containers, so many that a search through all of them would be slow.
const CONTAINERS: usize = 1000;

#[tokio::test]
async fn verbs_are_answered_while_a_plugin_updates_unknown_containers_without_pause() {
    let node = Arc::new(Node::new(""));
    let existing = node.clone();
    let start = move || {
        let process = Sleep::new();
        let nrid = existing.start();
        create_and_start(&existing, "c0", &process).unwrap();
        existing.stop();
        nrid.wait_for_exit();
        multiply(&existing, CONTAINERS);
        (existing.start(), process)
    };
    let (nrid, process) = spawn_blocking(start).await.unwrap();
    let plugin = connect(&node, Arc::new(UpdatesAtCreation(|_: &str| Vec::new()))).await;
    let observed = node.clone();
    spawn_blocking(move || wait_until_active(&observed)).await.unwrap();

    let update =
        |n: usize| ContainerUpdate { container_id: format!("unknown{n}"), ..Default::default() };
    let update = (0..UPDATES).map(update).collect();
    let request = Arc::new(UpdateContainersRequest { update, ..Default::default() });
    let replies = Arc::new(AtomicUsize::new(0));
    let mut calls = JoinSet::new();
    for _ in 0..REQUESTS {
        let (plugin, request, replies) = (plugin.clone(), request.clone(), replies.clone());
        calls.spawn(async move {
            let reply = plugin.runtime().update_containers(None, &request).await.unwrap();
            replies.fetch_add(1, SeqCst);
            reply.failed.len()
        });
    }
    // The first reply shows that nrid is at work on these requests.
    let mut failed = vec![calls.join_next().await.unwrap().unwrap()];
    let calling = node.clone();
    let verbs = move || {
        let dir = bundle(&calling, "large", 1000);
        let created = create(&calling, "c", &dir);
        perform(&calling, Verb::Delete, "c7", "/bin/false", None).unwrap();
        assert_eq!(calling.call(&Request::Ping), Reply::Done);
        created
    };
    let (reply, in_progress) = spawn_blocking(verbs).await.unwrap();
    let replies = replies.load(SeqCst);
    assert!(matches!(reply, Reply::Proceed(_)), "{reply:?}");
    assert!(replies < REQUESTS, "the verbs waited for all requests of the plugin");
    drop(in_progress);
    failed.extend(calls.join_all().await);
    assert_eq!(failed, [UPDATES; REQUESTS]);
    let stopping = node.clone();
    spawn_blocking(move || stopping.stop()).await.unwrap();
    let log = nrid.wait_for_exit();
    drop(process);
    let lines: Vec<_> = log.lines().filter(|line| line.contains("unknown0")).collect();
    assert_eq!(lines.len(), REQUESTS, "the log does not have one line for each request");
    // The line names three containers.
    assert!(lines[0].contains(&format!("and {} others", UPDATES - 3)), "{}", lines[0]);
}
