//! Plugins that register while requests are in progress, and updates that plugins request outside
//! of events.

use crate::harness::*;
use async_trait::async_trait;
use nri_adaptation::SessionError;
use nri_api::proto::Event::*;
use nri_api::proto::*;
use nri_wire::{CallError, RuntimeClient, status, ttrpc};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Returns the containers that a plugin received by `Synchronize` and by `CreateContainer`.
fn received_containers(harness: &Harness, plugin: &str) -> (Vec<String>, Vec<String>) {
    let synchronized = harness.log.of(&format!("{plugin} synchronize")).remove(0);
    let synchronized =
        synchronized.split(',').filter(|s| !s.is_empty()).map(str::to_owned).collect();
    (synchronized, harness.log.of(&format!("{plugin} create_container")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_plugin_that_registers_during_creations_receives_each_container_once() {
    // Each round has other indices, and another interleaving of the tasks.
    for round in 0..20 {
        let harness = Harness::new().await;
        let _first = harness.plugin("50-first", &[CREATE_CONTAINER], Quiet).await;
        let mut creating = Vec::new();
        let mut peers = Vec::new();
        for i in 0..60 {
            creating.push(harness.spawn_create(&format!("c{i}")));
            if i % 15 == 7 {
                // Indices before, between and after those of other plugins.
                let name = format!("{:02}-p", (i * 17 + round) % 100);
                let (peer, connecting) =
                    harness.connect_unregistered(&name, &[CREATE_CONTAINER], Quiet).await;
                peer.register().await.unwrap();
                peers.push((peer, connecting));
            }
        }
        for create in creating {
            create.await.unwrap().unwrap();
        }
        let all: BTreeSet<_> = (0..60).map(|i| format!("c{i}")).collect();
        for (peer, connecting) in peers {
            connecting.await.unwrap().unwrap();
            let (synchronized, received) = received_containers(&harness, &peer.name);
            assert_eq!(
                synchronized.len() + received.len(),
                60,
                "{}: {synchronized:?} {received:?}",
                peer.name
            );
            assert_eq!(
                synchronized.into_iter().chain(received).collect::<BTreeSet<_>>(),
                all,
                "{}",
                peer.name
            );
        }
    }
}

/// Blocks creations until the gate opens.
struct Held(Arc<Gate>);

#[async_trait]
impl Script for Held {
    async fn create(
        &self,
        _: &RuntimeClient,
        _: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        self.0.pass().await;
        Ok(CreateContainerResponse::new())
    }
}

/// Blocks the synchronization of the plugin until the gate opens.
struct HeldSync(Arc<Gate>);

#[async_trait]
impl Script for HeldSync {
    async fn synchronize(
        &self,
        _: &RuntimeClient,
        _: SynchronizeRequest,
    ) -> ttrpc::Result<SynchronizeResponse> {
        self.0.pass().await;
        Ok(SynchronizeResponse::new())
    }
}

#[tokio::test(start_paused = true)]
async fn the_snapshot_has_earlier_containers_and_later_creations_are_delivered() {
    let (harness, gate) = (Harness::new().await, Gate::new());
    let _slow = harness.plugin("50-slow", &[CREATE_CONTAINER], Held(gate.clone())).await;
    let before = harness.spawn_create("before");
    harness.log.wait("50-slow create_container before").await;
    // The new plugin's index is lower than that of the plugin that handles "before" already.
    let (new, connecting) =
        harness.connect_unregistered("10-new", &[CREATE_CONTAINER], Quiet).await;
    new.register().await.unwrap();
    run_until_idle().await;
    assert_eq!(harness.log.of("10-new"), [""; 0]);
    assert!(harness.adaptation.needs_request(CREATE_CONTAINER));
    let after = harness.spawn_create("after");
    run_until_idle().await;
    gate.open();
    before.await.unwrap().unwrap();
    connecting.await.unwrap().unwrap();
    harness.log.wait("10-new create_container after").await;
    gate.open();
    after.await.unwrap().unwrap();
    assert_eq!(harness.log.of("10-new"), ["synchronize before", "create_container after"]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_synchronization_delays_later_requests_only() {
    let (harness, gate) = (Harness::new().await, Gate::new());
    let _a = harness.plugin("10-a", &[CREATE_CONTAINER], Quiet).await;
    let (new, connecting) =
        harness.connect_unregistered("20-new", &[CREATE_CONTAINER], HeldSync(gate.clone())).await;
    new.register().await.unwrap();
    harness.log.wait("20-new synchronize ").await;
    let create = harness.spawn_create("c");
    harness.log.wait("10-a create_container c").await;
    run_until_idle().await;
    assert_eq!(harness.log.of("20-new"), ["synchronize "]);
    gate.open();
    connecting.await.unwrap().unwrap();
    create.await.unwrap().unwrap();
    assert_eq!(harness.log.of("20-new"), ["synchronize ", "create_container c"]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_fails_to_synchronize_blocks_no_request() {
    let (harness, gate) = (Harness::new().await, Gate::new());
    let (new, connecting) =
        harness.connect_unregistered("20-new", &[CREATE_CONTAINER], HeldSync(gate)).await;
    new.register().await.unwrap();
    harness.log.wait("20-new synchronize ").await;
    let create = harness.spawn_create("c");
    let start = tokio::time::Instant::now();
    create.await.unwrap().unwrap();
    assert_eq!(start.elapsed().as_secs(), 2, "creations wait as long as for a reply to a request");
    let error = connecting.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "cannot be synchronized: no reply within 10s");
    harness.log.wait("manager 20-new Closed").await;
    assert_eq!(harness.log.of("20-new"), ["synchronize "]);
    assert!(!harness.adaptation.has_plugins());
    assert!(!harness.adaptation.needs_request(CREATE_CONTAINER));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_disconnects_before_its_snapshot_blocks_no_request() {
    let (harness, gate) = (Harness::new().await, Gate::new());
    let _slow = harness.plugin("50-slow", &[CREATE_CONTAINER], Held(gate.clone())).await;
    let before = harness.spawn_create("before");
    harness.log.wait("50-slow create_container before").await;
    let (new, connecting) =
        harness.connect_unregistered("10-new", &[CREATE_CONTAINER], Quiet).await;
    new.register().await.unwrap();
    run_until_idle().await;
    new.end.close();
    harness.log.wait("manager 10-new Closed").await;
    let after = harness.spawn_create("after");
    gate.open();
    gate.open();
    before.await.unwrap().unwrap();
    after.await.unwrap().unwrap();
    assert!(matches!(
        connecting.await.unwrap(),
        Err(SessionError::Synchronize(CallError::Closed(_)))
    ));
    assert_eq!(harness.log.of("10-new"), [""; 0]);
}

/// Requests updates in its handlers.
struct UpdateRequester;

async fn request_updates(runtime: &RuntimeClient, id: &str) -> ttrpc::Result<()> {
    let request = UpdateContainersRequest {
        update: vec![shares(id, 5), shares("bad", 6)],
        evict: vec![ContainerEviction {
            container_id: format!("{id}-evicted"),
            ..Default::default()
        }],
        ..Default::default()
    };
    let reply = runtime.update_containers(None, &request).await;
    let reply = reply.map_err(|e| status(ttrpc::Code::INTERNAL, e))?;
    assert_eq!(reply.failed, [shares("bad", 6)]);
    Ok(())
}

#[async_trait]
impl Script for UpdateRequester {
    async fn synchronize(
        &self,
        runtime: &RuntimeClient,
        _: SynchronizeRequest,
    ) -> ttrpc::Result<SynchronizeResponse> {
        request_updates(runtime, "in-sync").await?;
        let update = vec![shares("in-reply", 1), shares("bad", 2)];
        Ok(SynchronizeResponse { update, ..Default::default() })
    }
    async fn create(
        &self,
        runtime: &RuntimeClient,
        _: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        request_updates(runtime, "in-create").await?;
        Ok(CreateContainerResponse::new())
    }
}

#[tokio::test(start_paused = true)]
async fn updates_are_accepted_from_within_handlers() {
    let harness = Harness::new().await;
    let peer = harness.plugin("10-a", &[CREATE_CONTAINER], UpdateRequester).await;
    harness.create("c").await.unwrap();
    request_updates(peer.end.runtime(), "outside-events").await.unwrap();
    let mut expected = vec!["snapshot".to_owned()];
    let updates = |id: &str| {
        [
            format!("update {id} by 10-a"),
            "update bad by 10-a".into(),
            format!("evict {id}-evicted by 10-a"),
        ]
    };
    expected.extend(updates("in-sync"));
    expected.extend(
        ["update in-reply by 10-a", "update bad by 10-a", "10-a Active"].map(str::to_owned),
    );
    expected.extend(updates("in-create"));
    expected.extend(updates("outside-events"));
    assert_eq!(harness.log.of("manager"), expected);
}

#[tokio::test(start_paused = true)]
async fn updates_are_refused_before_the_plugin_is_synchronized() {
    let harness = Harness::new().await;
    let (peer, connecting) = harness.connect_unregistered("10-a", &[], Quiet).await;
    let error = peer
        .end
        .runtime()
        .update_containers(None, &UpdateContainersRequest::new())
        .await
        .unwrap_err();
    let text = "updates are accepted once the plugin is being synchronized";
    assert_eq!(error.to_string(), text);
    peer.register().await.unwrap();
    connecting.await.unwrap().unwrap();
    peer.end.runtime().update_containers(None, &UpdateContainersRequest::new()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn contradicting_updates_in_the_reply_to_synchronize_close_the_session() {
    /// Requests two different values for one field.
    struct Twice;
    #[async_trait]
    impl Script for Twice {
        async fn synchronize(
            &self,
            _: &RuntimeClient,
            _: SynchronizeRequest,
        ) -> ttrpc::Result<SynchronizeResponse> {
            let update = vec![shares("c", 1), shares("c", 2)];
            Ok(SynchronizeResponse { update, ..Default::default() })
        }
    }
    let harness = Harness::new().await;
    let (peer, connecting) = harness.connect_unregistered("10-a", &[], Twice).await;
    peer.register().await.unwrap();
    let error = connecting.await.unwrap().unwrap_err();
    assert!(matches!(error, SessionError::Updates(_)), "{error}");
    assert!(error.to_string().ends_with("both tried to set cpu.shares"), "{error}");
}
