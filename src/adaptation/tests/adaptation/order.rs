//! Order of requests in the pipeline: no overtaking, the same order at all plugins, one call at a
//! time.

use crate::harness::*;
use async_trait::async_trait;
use nri_api::proto::Event::*;
use nri_api::proto::*;
use nri_wire::{RuntimeClient, ttrpc};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Blocks the events of one container until the gate opens.
struct Slow(&'static str, Arc<Gate>);

#[async_trait]
impl Script for Slow {
    async fn create(
        &self,
        _: &RuntimeClient,
        r: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        if r.container.id == self.0 {
            self.1.pass().await;
        }
        Ok(CreateContainerResponse::new())
    }
    async fn event(&self, _: Event, subject: &str) -> ttrpc::Result<()> {
        if subject == self.0 {
            self.1.pass().await;
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_pipelined_and_do_not_overtake_each_other() {
    let (harness, gate) = (Harness::new().await, Gate::new());
    let _a = harness.plugin("10-a", &[CREATE_CONTAINER], Quiet).await;
    let _b = harness.plugin("20-b", &[CREATE_CONTAINER], Slow("c1", gate.clone())).await;
    let _c = harness.plugin("30-c", &[CREATE_CONTAINER], Quiet).await;
    let first = harness.spawn_create("c1");
    harness.log.wait("20-b create_container c1").await;
    let second = harness.spawn_create("c2");
    harness.log.wait("10-a create_container c2").await;
    run_until_idle().await;
    assert_eq!(harness.log.of("20-b create_container"), ["c1"]);
    assert_eq!(harness.log.of("30-c create_container"), [""; 0]);
    gate.open();
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    for plugin in ["10-a", "20-b", "30-c"] {
        assert_eq!(harness.log.of(&format!("{plugin} create_container")), ["c1", "c2"], "{plugin}");
    }
    assert_eq!(harness.log.of("commit"), ["begin c1", "end c1", "begin c2", "end c2"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_fails_does_not_block_others() {
    /// Refuses the creation of c1.
    struct Refuse;
    #[async_trait]
    impl Script for Refuse {
        async fn create(
            &self,
            _: &RuntimeClient,
            r: CreateContainerRequest,
        ) -> ttrpc::Result<CreateContainerResponse> {
            match &*r.container.id {
                "c1" => Err(nri_wire::status(ttrpc::Code::UNKNOWN, "no")),
                _ => Ok(CreateContainerResponse::new()),
            }
        }
    }
    let harness = Harness::new().await;
    let _a = harness.plugin("10-a", &[CREATE_CONTAINER], Refuse).await;
    let _b = harness.plugin("20-b", &[CREATE_CONTAINER], Quiet).await;
    let (first, second) = (harness.spawn_create("c1"), harness.spawn_create("c2"));
    first.await.unwrap().unwrap_err();
    second.await.unwrap().unwrap();
    assert_eq!(harness.log.of("20-b create_container"), ["c2"]);
    assert_eq!(harness.log.of("commit"), ["begin c2", "end c2"]);
}

/// Yields a number of times that depends on plugin and container. Fails if another call is in
/// progress.
struct Uneven(u64, AtomicUsize);

#[async_trait]
impl Script for Uneven {
    async fn create(
        &self,
        _: &RuntimeClient,
        r: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        let others = self.1.fetch_add(1, Ordering::SeqCst);
        // A hash (FNV-1a), of which six bits are the number of yields.
        let seed = r
            .container
            .id
            .bytes()
            .fold(self.0, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        for _ in 0..seed >> 20 & 0x3f {
            tokio::task::yield_now().await;
        }
        self.1.fetch_sub(1, Ordering::SeqCst);
        if others > 0 {
            Err(nri_wire::status(ttrpc::Code::INTERNAL, "concurrent calls"))
        } else {
            Ok(Default::default())
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_plugins_see_one_order_and_get_one_call_at_a_time() {
    let harness = Harness::new().await;
    let mut peers = Vec::new();
    for (seed, name) in (1..).zip(["10-a", "20-b", "30-c", "40-d"]) {
        peers.push(
            harness.plugin(name, &[CREATE_CONTAINER], Uneven(seed, AtomicUsize::new(0))).await,
        );
    }
    let creating: Vec<_> = (0..100).map(|i| harness.spawn_create(&format!("c{i}"))).collect();
    for create in creating {
        create.await.unwrap().unwrap();
    }
    let order = harness.log.of("10-a create_container");
    assert_eq!(order.len(), 100);
    for name in ["20-b", "30-c", "40-d"] {
        assert_eq!(harness.log.of(&format!("{name} create_container")), order, "{name}");
    }
    let commits: Vec<_> =
        order.iter().flat_map(|c| [format!("begin {c}"), format!("end {c}")]).collect();
    assert_eq!(harness.log.of("commit"), commits);
}

#[tokio::test(start_paused = true)]
async fn plugins_are_called_by_index_then_registration_and_see_earlier_adjustments() {
    /// Sets this annotation to the keys of the annotations that earlier plugins set.
    struct Add(&'static str);
    #[async_trait]
    impl Script for Add {
        async fn create(
            &self,
            _: &RuntimeClient,
            r: CreateContainerRequest,
        ) -> ttrpc::Result<CreateContainerResponse> {
            let mut seen: Vec<_> = r.container.annotations.keys().cloned().collect();
            seen.sort();
            Ok(annotate(self.0, &seen.join(" ")))
        }
    }
    let harness = Harness::new().await;
    let mut peers = Vec::new();
    for (name, key) in [("50-x", "x"), ("10-z", "z"), ("10-a", "a"), ("00-m", "m")] {
        peers.push(harness.plugin(name, &[CREATE_CONTAINER], Add(key)).await);
    }
    assert_eq!(harness.active_plugins(), ["00-m", "10-z", "10-a", "50-x"]);
    let outcome = harness.create("c").await.unwrap();
    let mut annotations: Vec<_> = outcome.adjust.annotations.into_iter().collect();
    annotations.sort();
    let expected = [("a", "m z"), ("m", ""), ("x", "a m z"), ("z", "m")];
    assert_eq!(annotations, expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
    assert_eq!(
        outcome.consulted.iter().map(ToString::to_string).collect::<Vec<_>>(),
        harness.active_plugins()
    );
}

#[tokio::test(start_paused = true)]
async fn the_caller_does_not_wait_for_post_events_but_later_requests_do() {
    let (harness, gate) = (Harness::new().await, Gate::new());
    let _a = harness.plugin("10-a", &[], Slow("c1", gate.clone())).await;
    let _b = harness.plugin("20-b", &[], Quiet).await;
    let request = || PostCreateContainerRequest {
        container: Some(container("c1")).into(),
        ..Default::default()
    };
    let delivery = harness.adaptation.post_create_container(request());
    drop(harness.adaptation.post_create_container(request())); // the delivery continues
    let start =
        StartContainerRequest { container: Some(container("c1")).into(), ..Default::default() };
    let adaptation = harness.adaptation.clone();
    let starting = tokio::spawn(async move {
        adaptation
            .start_container(start, &nri_adaptation::RequestContext::default(), async || ())
            .await
    });
    harness.log.wait("20-b post_create_container c1").await;
    run_until_idle().await;
    assert_eq!(
        harness.log.of("10-a").len(),
        2,
        "received more than synchronize and the first event: {:?}",
        harness.log.of("10-a")
    );
    gate.open();
    delivery.await;
    gate.open();
    gate.open();
    starting.await.unwrap().unwrap();
    let expected = [
        "synchronize ",
        "post_create_container c1",
        "post_create_container c1",
        "start_container c1",
    ];
    assert_eq!(harness.log.of("10-a"), expected);
    assert_eq!(harness.log.of("20-b"), expected);
}

#[tokio::test(start_paused = true)]
async fn post_events_do_not_overtake_earlier_requests() {
    let (harness, gate) = (Harness::new().await, Gate::new());
    let _a = harness.plugin("10-a", &[], Slow("c1", gate.clone())).await;
    let _b = harness.plugin("20-b", &[CREATE_CONTAINER, POST_CREATE_CONTAINER], Quiet).await;
    let first = harness.spawn_create("c1");
    harness.log.wait("10-a create_container c1").await;
    let request = PostCreateContainerRequest {
        container: Some(container("c0")).into(),
        ..Default::default()
    };
    let delivery = harness.adaptation.post_create_container(request);
    run_until_idle().await;
    assert_eq!(harness.log.of("20-b"), ["synchronize "], "the post-event overtook c1");
    gate.open();
    delivery.await;
    assert_eq!(
        harness.log.of("20-b"),
        ["synchronize ", "create_container c1", "post_create_container c0"]
    );
    first.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_blocks_only_the_plugin_that_handles_it() {
    let (harness, gate) = (Harness::new().await, Gate::new());
    let _a = harness.plugin("10-a", &[CREATE_CONTAINER], Slow("c1", gate.clone())).await;
    let _b = harness.plugin("20-b", &[CREATE_CONTAINER], Quiet).await;
    let first = harness.spawn_create("c1");
    harness.log.wait("10-a create_container c1").await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    let second = harness.spawn_create("c2");
    run_until_idle().await;
    assert_eq!(harness.log.of("10-a create_container"), ["c1"]);
    gate.open();
    second.await.unwrap().unwrap();
    assert_eq!(harness.log.of("10-a create_container"), ["c1", "c2"]);
    assert_eq!(harness.log.of("20-b create_container"), ["c2"]);
    assert_eq!(harness.log.of("commit"), ["begin c2", "end c2"]);
}
