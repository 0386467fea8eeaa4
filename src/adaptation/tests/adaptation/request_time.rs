//! Time that a request has for all plugins together, however many register.

use crate::harness::*;
use async_trait::async_trait;
use nri_adaptation::{AdaptationConfig, OnFailure, PluginPolicy, RequestContext};
use nri_api::proto::Event::*;
use nri_api::proto::*;
use nri_wire::{RuntimeClient, ttrpc};
use std::time::Duration;

const EVENTS: [Event; 4] = [CREATE_CONTAINER, START_CONTAINER, UPDATE_CONTAINER, STOP_CONTAINER];

/// A plugin that replies to each event just within its timeout.
struct Slow;

impl Slow {
    async fn work() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[async_trait]
impl Script for Slow {
    async fn create(
        &self,
        _: &RuntimeClient,
        _: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        Self::work().await;
        Ok(CreateContainerResponse::new())
    }
    async fn update(&self, _: UpdateContainerRequest) -> ttrpc::Result<UpdateContainerResponse> {
        Self::work().await;
        Ok(UpdateContainerResponse::new())
    }
    async fn stop(&self, _: StopContainerRequest) -> ttrpc::Result<StopContainerResponse> {
        Self::work().await;
        Ok(StopContainerResponse::new())
    }
    async fn event(&self, _: Event, _: &str) -> ttrpc::Result<()> {
        Self::work().await;
        Ok(())
    }
}

/// Connects 60 slow plugins, of which one after the other would take a minute, and `90-last`.
/// Requests have 40 s: the plugins 20 s, and 30 s if they must not be absent.
async fn start(policies: Vec<PluginPolicy>) -> (Harness, Vec<Peer>) {
    let reply_limit = Duration::from_secs(40);
    let config = AdaptationConfig { reply_limit, policies, ..AdaptationConfig::default() };
    let harness = Harness::with(config).await;
    let mut peers = Vec::new();
    for index in 0..60 {
        peers.push(harness.plugin(&format!("{index:02}-slow"), &EVENTS, Slow).await);
    }
    peers.push(harness.plugin("90-last", &EVENTS, Quiet).await);
    (harness, peers)
}

/// Returns the number of calls for an event.
fn calls(harness: &Harness, event: &str) -> usize {
    harness.log.all().iter().filter(|entry| entry.contains(event)).count()
}

async fn create(harness: &Harness) -> (Result<(), String>, Vec<String>) {
    let request =
        CreateContainerRequest { container: Some(container("c")).into(), ..Default::default() };
    let context = RequestContext::default();
    let adaptation = &harness.adaptation;
    let created = adaptation.create_container(request, &context, async |_| (), async |()| ()).await;
    let missed = context.missed().iter().map(|m| format!("{}: {}", m.plugin, m.why)).collect();
    (created.map_err(|e| e.to_string()), missed)
}

async fn start_container(harness: &Harness) -> Result<(), String> {
    let request =
        StartContainerRequest { container: Some(container("c")).into(), ..Default::default() };
    let context = RequestContext::default();
    let started = harness.adaptation.start_container(request, &context, async || ()).await;
    started.map_err(|e| e.to_string())
}

async fn update(harness: &Harness) -> Result<(), String> {
    let request =
        UpdateContainerRequest { container: Some(container("c")).into(), ..Default::default() };
    let context = RequestContext::default();
    let updated = harness.adaptation.update_container(request, &context, async |_| ()).await;
    updated.map_err(|e| e.to_string())
}

const WHY: &str = "the request has waited for plugins for 20s already";

#[tokio::test(start_paused = true)]
async fn a_request_does_not_wait_for_each_of_many_slow_plugins() {
    let (harness, _peers) = start(Vec::new()).await;
    let (created, missed) = create(&harness).await;
    created.unwrap();
    assert_eq!(calls(&harness, "create_container"), 20);
    assert_eq!(missed.len(), 41);
    assert_eq!(
        (&*missed[0], &*missed[40]),
        (&*format!("20-slow: {WHY}"), &*format!("90-last: {WHY}"))
    );
    start_container(&harness).await.unwrap();
    assert_eq!(calls(&harness, "start_container"), 20);
    update(&harness).await.unwrap();
    assert_eq!(calls(&harness, "update_container"), 20);

    // As after a timeout, status and statistics say so; no connection is closed.
    let last = harness.adaptation.plugins().pop().unwrap();
    let expected = format!("UPDATE_CONTAINER: {WHY}");
    assert_eq!((last.last_error.as_deref(), last.timeouts), (Some(&*expected), 0));
    let (_, statistics) = harness.adaptation.statistics().pop().unwrap();
    let timeouts: Vec<_> = statistics.events.iter().map(|event| event.failures.timeouts).collect();
    assert_eq!(timeouts, [1, 1, 1]);
    assert_eq!(harness.active_plugins().len(), 61);
}

#[tokio::test(start_paused = true)]
async fn a_stop_reaches_all_plugins_and_does_not_wait_for_each() {
    let (harness, peers) = start(Vec::new()).await;
    let request =
        StopContainerRequest { container: Some(container("c")).into(), ..Default::default() };
    harness.adaptation.stop_container(request, async |_| harness.log.add("stopped")).await;
    let log = harness.log.all();
    let at = log.iter().position(|entry| entry == "stopped").unwrap();
    let before = log[..at].iter().filter(|entry| entry.contains("stop_container")).count();
    assert!(before < 61, "{before}");
    for peer in &peers {
        harness.log.wait(&format!("{} stop_container c", peer.name)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_must_not_be_absent_is_called_after_slow_ones() {
    let named = PluginPolicy { plugin: "90-last".into(), ..PluginPolicy::default() };
    for policy in [
        PluginPolicy { required: true, ..named.clone() },
        PluginPolicy { on_failure: OnFailure::Fail, ..named },
    ] {
        let (harness, _peers) = start(vec![policy]).await;
        let (created, missed) = create(&harness).await;
        created.unwrap();
        assert_eq!(missed.len(), 40);
        assert_eq!(harness.log.of("90-last create_container"), ["c"]);
        update(&harness).await.unwrap();
        assert_eq!(harness.log.of("90-last update_container"), ["c"]);
    }
}

/// Otherwise the caller would give up, and would not say why.
#[tokio::test(start_paused = true)]
async fn a_request_fails_in_time_if_too_many_plugins_must_not_be_absent() {
    let fail =
        PluginPolicy { plugin: "*".into(), on_failure: OnFailure::Fail, ..PluginPolicy::default() };
    let (harness, _peers) = start(vec![fail]).await;
    let why = |event: &str| {
        format!(
            "plugin 30-slow could not handle {event} of c: the request has waited for plugins for \
             30s already"
        )
    };
    assert_eq!(create(&harness).await.0, Err(why("CREATE_CONTAINER")));
    assert_eq!(start_container(&harness).await, Err(why("START_CONTAINER")));
    assert_eq!(update(&harness).await, Err(why("UPDATE_CONTAINER")));
}

#[tokio::test(start_paused = true)]
async fn observed_plugins_delay_a_request_for_a_small_part_of_its_time() {
    let observed = PluginPolicy { plugin: "slow".into(), observe: true, ..PluginPolicy::default() };
    let (harness, _peers) = start(vec![observed]).await;
    let (created, missed) = create(&harness).await;
    created.unwrap();
    assert_eq!(missed, [""; 0]);
    // 1.25 s.
    assert_eq!(calls(&harness, "slow create_container"), 2);
    assert_eq!(harness.log.of("90-last create_container"), ["c"]);
}

/// One after the other waited for the whole timeout; the sixtieth gave up.
#[tokio::test(start_paused = true)]
async fn requests_do_not_wait_for_each_other_at_an_observed_plugin_that_hangs() {
    let policy = PluginPolicy {
        plugin: "a".into(),
        observe: true,
        consecutive_timeouts: Some(0),
        ..PluginPolicy::default()
    };
    let reply_limit = Duration::from_secs(40);
    let config =
        AdaptationConfig { reply_limit, policies: vec![policy], ..AdaptationConfig::default() };
    let harness = Harness::with(config).await;
    let _a = harness.plugin("10-a", &[CREATE_CONTAINER], Hangs).await;
    let ids: Vec<_> = (0..80).map(|n| n.to_string()).collect();
    let creations: Vec<_> = ids.iter().map(|id| harness.spawn_create(id)).collect();
    for creation in creations {
        creation.await.unwrap().unwrap();
    }
    assert_eq!(calls(&harness, "10-a create_container"), 1);
}
