//! Plugins that take longer for their synchronization than for a request.

use crate::harness::*;
use async_trait::async_trait;
use nri_adaptation::{
    AdaptationConfig, DefaultValidatorConfig, OnFailure, PluginPolicy, PluginState, RequestContext,
};
use nri_api::proto::Event::*;
use nri_api::proto::*;
use nri_wire::{RuntimeClient, ttrpc};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// Takes this many seconds for each message of a synchronization.
struct Slow(u64);

#[async_trait]
impl Script for Slow {
    async fn synchronize(
        &self,
        _: &RuntimeClient,
        r: SynchronizeRequest,
    ) -> ttrpc::Result<SynchronizeResponse> {
        sleep(Duration::from_secs(self.0)).await;
        Ok(SynchronizeResponse { more: r.more, ..Default::default() })
    }
}

/// Connects the plugin `20-slow`, and returns when it has received the first containers.
async fn connect(
    policy: PluginPolicy,
    seconds: u64,
) -> (Harness, [Peer; 2], JoinHandle<Result<nri_api::PluginId, nri_adaptation::SessionError>>) {
    let policies = vec![PluginPolicy { plugin: "slow".into(), ..policy }];
    let config = AdaptationConfig { policies, ..AdaptationConfig::default() };
    let harness = Harness::with(config).await;
    let first = harness.plugin("10-first", &[CREATE_CONTAINER], Quiet).await;
    harness.manager.state.lock().unwrap().containers.push(container("old"));
    let (slow, connecting) =
        harness.connect_unregistered("20-slow", &[CREATE_CONTAINER], Slow(seconds)).await;
    slow.register().await.unwrap();
    harness.log.wait("20-slow synchronize old").await;
    (harness, [first, slow], connecting)
}

#[tokio::test(start_paused = true)]
async fn a_synchronization_may_take_longer_than_a_request() {
    let (harness, _peers, connecting) = connect(PluginPolicy::default(), 9).await;
    let plugin = || harness.adaptation.plugins().remove(1);
    assert_eq!(plugin().state, PluginState::Synchronizing);
    let progress = plugin().synchronization.unwrap();
    assert_eq!((progress.sent, progress.total), (1, 1));
    connecting.await.unwrap().unwrap();
    assert_eq!((plugin().state, plugin().synchronization), (PluginState::Active, None));
    // Nothing has changed meanwhile, so one synchronization was enough.
    harness.create("c").await.unwrap();
    assert_eq!(harness.log.of("20-slow"), ["synchronize old", "create_container c"]);
}

/// A creation waits as long as for a reply to a request, and the next ones do not wait at all. The
/// plugin then learns of their containers by a second synchronization.
#[tokio::test(start_paused = true)]
async fn creations_do_not_wait_for_a_slow_synchronization() {
    let (harness, _peers, connecting) = connect(PluginPolicy::default(), 3).await;
    for (id, seconds) in [("a", 2), ("b", 0)] {
        let start = Instant::now();
        harness.create(id).await.unwrap();
        assert_eq!(start.elapsed().as_secs(), seconds, "{id}");
    }
    connecting.await.unwrap().unwrap();
    harness.create("c").await.unwrap();
    let expected = ["synchronize old", "synchronize old,a,b", "create_container c"];
    assert_eq!(harness.log.of("20-slow"), expected);
}

/// Each container is either in the last snapshot or delivered, whenever it is created.
#[tokio::test(start_paused = true)]
async fn no_container_is_missed_by_a_plugin_that_is_slow_to_synchronize() {
    let (harness, _peers, connecting) = connect(PluginPolicy::default(), 3).await;
    let mut creating = Vec::new();
    for i in 0..9 {
        creating.push(harness.spawn_create(&format!("c{i}")));
        sleep(Duration::from_millis(700)).await;
    }
    for create in creating {
        create.await.unwrap().unwrap();
    }
    connecting.await.unwrap().unwrap();
    let last = harness.log.of("20-slow synchronize").pop().unwrap();
    let mut all: Vec<_> = last.split(',').map(str::to_owned).collect();
    all.extend(harness.log.of("20-slow create_container"));
    all.sort();
    let mut expected: Vec<_> = (0..9).map(|i| format!("c{i}")).collect();
    expected.push("old".to_owned());
    assert_eq!(all, expected, "{:?}", harness.log.of("20-slow"));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_whose_snapshots_are_outdated_again_and_again_is_disconnected() {
    let (harness, peers, connecting) = connect(PluginPolicy::default(), 3).await;
    for i in 0..40 {
        harness.create(&format!("c{i}")).await.unwrap();
        sleep(Duration::from_millis(900)).await;
    }
    let error = connecting.await.unwrap().unwrap_err().to_string();
    let expected =
        "cannot be synchronized: 5 times, containers have changed before the plugin replied";
    assert_eq!(error, expected);
    peers[1].end.closed().await;
    assert_eq!(harness.log.of("20-slow synchronize").len(), 5);
}

#[tokio::test(start_paused = true)]
async fn policies_decide_about_creations_during_a_slow_synchronization() {
    let unsynchronized = "plugin 20-slow could not handle CREATE_CONTAINER of c: it is still being \
                          synchronized";
    let required = "required plugin slow is not active, so c cannot be created";
    let fail = PluginPolicy { on_failure: OnFailure::Fail, ..PluginPolicy::default() };
    let require = PluginPolicy { required: true, ..PluginPolicy::default() };
    for (policy, expected) in [(fail, unsynchronized), (require, required)] {
        let (harness, _peers, connecting) = connect(policy, 3).await;
        assert_eq!(harness.create("c").await.unwrap_err(), expected);
        connecting.await.unwrap().unwrap();
        harness.create("c").await.unwrap();
        assert_eq!(harness.adaptation.missing_required(), [""; 0]);
    }
}

/// A plugin that was skipped knows nothing of the container, so it is not told of its end either.
#[tokio::test(start_paused = true)]
async fn a_skipped_plugin_is_recorded_as_missed_and_not_as_reached() {
    let (harness, _peers, _connecting) = connect(PluginPolicy::default(), 3).await;
    let context = RequestContext::default();
    let request =
        CreateContainerRequest { container: Some(container("c")).into(), ..Default::default() };
    harness
        .adaptation
        .create_container(request, &context, async |_| (), async |()| ())
        .await
        .unwrap();
    let missed = context.missed();
    assert_eq!(missed.len(), 1, "{missed:?}");
    assert_eq!(missed[0].plugin.to_string(), "20-slow");
    assert_eq!(missed[0].why, "it is still being synchronized");
    let reached: Vec<_> = context.reached().iter().map(ToString::to_string).collect();
    assert_eq!(reached, ["10-first"]);
}

/// As with a validator that is not connected, only `required` refuses the container. Otherwise any
/// plugin that hangs in its synchronization could refuse all containers.
#[tokio::test(start_paused = true)]
async fn a_validator_that_is_slow_to_synchronize_is_not_asked() {
    let validates = [VALIDATE_CONTAINER_ADJUSTMENT];
    let both = [CREATE_CONTAINER, VALIDATE_CONTAINER_ADJUSTMENT];
    for events in [&validates[..], &both] {
        let harness = Harness::new().await;
        harness.manager.state.lock().unwrap().containers.push(container("old"));
        let (slow, connecting) = harness.connect_unregistered("20-slow", events, Slow(3)).await;
        slow.register().await.unwrap();
        harness.log.wait("20-slow synchronize old").await;
        let start = Instant::now();
        harness.create("a").await.unwrap();
        assert_eq!(start.elapsed().as_secs(), 2);
        assert_eq!(harness.log.of("20-slow validate_container_adjustment"), [""; 0]);
        connecting.await.unwrap().unwrap();
        harness.create("b").await.unwrap();
        assert_eq!(harness.log.of("20-slow validate_container_adjustment"), ["b"]);
    }
}

/// The built-in validator does not count a plugin as consulted that was not asked.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_slow_to_synchronize_is_not_consulted() {
    let rules =
        DefaultValidatorConfig { required_plugins: vec!["slow".into()], ..Default::default() };
    let config = AdaptationConfig { default_validator: Some(rules), ..AdaptationConfig::default() };
    let harness = Harness::with(config).await;
    harness.manager.state.lock().unwrap().containers.push(container("old"));
    let events = [VALIDATE_CONTAINER_ADJUSTMENT];
    let (slow, connecting) = harness.connect_unregistered("20-slow", &events, Slow(3)).await;
    slow.register().await.unwrap();
    harness.log.wait("20-slow synchronize old").await;
    let error = harness.create("a").await.unwrap_err();
    assert!(error.contains("required plugin"), "{error}");
    connecting.await.unwrap().unwrap();
    harness.create("b").await.unwrap();
}

/// The requests that have waited as long as for a reply go to the session that is to be replaced.
#[tokio::test(start_paused = true)]
async fn an_older_session_serves_while_the_newer_one_is_slow_to_synchronize() {
    let harness = Harness::new().await;
    let _old = harness.plugin("20-slow", &[CREATE_CONTAINER], Quiet).await;
    harness.manager.state.lock().unwrap().containers.push(container("old"));
    let (new, connecting) =
        harness.connect_unregistered("20-slow", &[CREATE_CONTAINER], Slow(3)).await;
    new.register().await.unwrap();
    harness.log.wait("20-slow synchronize old").await;
    let start = Instant::now();
    harness.create("a").await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 2);
    connecting.await.unwrap().unwrap();
    harness.create("b").await.unwrap();
    let expected = [
        "synchronize ",
        "synchronize old",
        "create_container a",
        "synchronize old,a",
        "create_container b",
    ];
    let calls = harness.log.of("20-slow");
    let calls: Vec<_> = calls.iter().filter(|call| !call.starts_with("shutdown")).collect();
    assert_eq!(calls, expected);
}
