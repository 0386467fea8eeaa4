//! Statistics of plugins.

use crate::harness::*;
use crate::launch::launched::Dirs;
use async_trait::async_trait;
use nri_adaptation::{AdaptationConfig, Permissions, PluginPolicy, PluginStatistics};
use nri_api::proto::Event::*;
use nri_api::proto::*;
use nri_wire::{RuntimeClient, status, ttrpc};
use std::time::Duration;

/// A plugin that takes this time for each creation, and whose reply depends on the container's id.
struct Timed(Duration);

#[async_trait]
impl Script for Timed {
    async fn create(
        &self,
        _: &RuntimeClient,
        r: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        tokio::time::sleep(self.0).await;
        match &*r.container.id {
            "hang" if self.0 == TIME => std::future::pending().await,
            "refuse" => Err(status(ttrpc::Code::UNKNOWN, "no room")),
            "broken" => Err(status(ttrpc::Code::INTERNAL, "null pointer")),
            "conflict" => Ok(annotate("a", "b")),
            "update" if self.0 == TIME => {
                let update = vec![shares("c1", 2), shares("c2", 3)];
                let evict = vec![ContainerEviction::new()];
                Ok(CreateContainerResponse { update, evict, ..Default::default() })
            }
            _ => Ok(CreateContainerResponse::new()),
        }
    }
}

const TIME: Duration = Duration::from_millis(3);

fn statistics(harness: &Harness, name: &str) -> PluginStatistics {
    let all = harness.adaptation.statistics();
    all.into_iter().find(|(id, _)| id.to_string() == name).unwrap().1
}

#[tokio::test(start_paused = true)]
async fn calls_failures_and_requests_are_counted_per_plugin_and_event() {
    let policy = PluginPolicy {
        plugin: "a".into(),
        consecutive_timeouts: Some(0),
        ..PluginPolicy::default()
    };
    let harness =
        Harness::with(AdaptationConfig { policies: vec![policy], ..Default::default() }).await;
    let _a = harness.plugin("10-a", &[CREATE_CONTAINER, STOP_CONTAINER], Timed(TIME)).await;
    let _b = harness.plugin("20-b", &[CREATE_CONTAINER], Timed(Duration::ZERO)).await;
    for id in ["c1", "c2", "update", "hang"] {
        harness.create(id).await.unwrap();
    }
    for id in ["refuse", "broken", "conflict"] {
        harness.create(id).await.unwrap_err();
    }
    let request =
        StopContainerRequest { container: Some(container("c1")).into(), ..Default::default() };
    harness.adaptation.stop_container(request, async |_| ()).await;

    let a = statistics(&harness, "10-a");
    let [create, stop] = &a.events[..] else { panic!("{a:?}") };
    assert_eq!((create.event, create.latency.count()), (CREATE_CONTAINER, 7));
    // Six calls of 3 ms, and a timeout of 2 s.
    assert_eq!((create.latency.buckets[5], create.latency.buckets[13]), (6, 1));
    assert!(create.latency.sum >= 6 * TIME + Duration::from_secs(2));
    assert_eq!((stop.event, stop.latency.count()), (STOP_CONTAINER, 1));
    let failures = create.failures;
    assert_eq!((failures.timeouts, failures.errors, failures.total()), (1, 1, 2));
    assert_eq!(create.refusals, 1, "an error that the plugin's handler replied with");
    assert_eq!((stop.failures.total(), stop.refusals), (0, 0));
    assert_eq!((a.updates, a.evictions, a.conflicts, a.restarts), (2, 1, 0, 0));
    assert_eq!((a.queue.count(), a.queue.sum), (8, Duration::ZERO));
    // The refused creations did not reach it, and its reply is the one that conflicts.
    let b = statistics(&harness, "20-b");
    assert_eq!((b.latency().count(), b.conflicts), (5, 1));
    assert_eq!(harness.adaptation.commit_queue().count(), 5);
}

#[tokio::test(start_paused = true)]
async fn verdicts_and_errors_of_validators_are_refusals_and_errors_to_a_stop_are_none() {
    /// Rejects the container of this id, and replies with an error about all others.
    struct Validator(&'static str);
    #[async_trait]
    impl Script for Validator {
        async fn validate(
            &self,
            r: ValidateContainerAdjustmentRequest,
        ) -> ttrpc::Result<ValidateContainerAdjustmentResponse> {
            match r.container.id == self.0 {
                true => {
                    Ok(ValidateContainerAdjustmentResponse { reject: true, ..Default::default() })
                }
                false => Err(status(ttrpc::Code::PERMISSION_DENIED, "no")),
            }
        }
        async fn stop(&self, _: StopContainerRequest) -> ttrpc::Result<StopContainerResponse> {
            Err(status(ttrpc::Code::UNKNOWN, "no"))
        }
    }
    let harness = Harness::new().await;
    let events = [VALIDATE_CONTAINER_ADJUSTMENT, STOP_CONTAINER];
    let _a = harness.plugin("10-a", &events, Validator("c1")).await;
    let _b = harness.plugin("20-b", &events, Validator("c2")).await;
    for id in ["c1", "c2", "c3"] {
        harness.create(id).await.unwrap_err();
    }
    assert!(harness.adaptation.plugins().iter().all(|plugin| plugin.last_error.is_none()));
    let request =
        StopContainerRequest { container: Some(container("c1")).into(), ..Default::default() };
    harness.adaptation.stop_container(request, async |_| ()).await;
    for name in ["10-a", "20-b"] {
        let counted = statistics(&harness, name);
        let of_event = |event| counted.events.iter().find(|e| e.event == event).unwrap();
        let verdicts = of_event(VALIDATE_CONTAINER_ADJUSTMENT);
        assert_eq!((verdicts.refusals, verdicts.failures.total()), (3, 0), "{name}");
        let stop = of_event(STOP_CONTAINER);
        assert_eq!((stop.refusals, stop.failures.errors), (0, 1), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_in_the_queue_of_a_busy_plugin_is_not_part_of_the_call() {
    let harness = Harness::new().await;
    let _a = harness.plugin("10-a", &[CREATE_CONTAINER], Timed(TIME)).await;
    let creations = ["c1", "c2", "c3"].map(|id| harness.spawn_create(id));
    for creation in creations {
        creation.await.unwrap().unwrap();
    }
    let a = statistics(&harness, "10-a");
    assert_eq!(a.latency().buckets[5], 3, "{a:?}");
    // The first did not wait, the others waited for one and for two calls.
    let zero_to_ten_ms = &a.queue.buckets[..7];
    assert_eq!(zero_to_ten_ms, [1, 0, 0, 0, 0, 1, 1], "{a:?}");
}

#[tokio::test(start_paused = true)]
async fn a_denied_reply_is_counted() {
    let policy = PluginPolicy {
        plugin: "a".into(),
        permissions: Permissions::new(None::<[&str; 0]>, ["annotations"]).unwrap(),
        ..PluginPolicy::default()
    };
    let harness =
        Harness::with(AdaptationConfig { policies: vec![policy], ..Default::default() }).await;
    let _a = harness.plugin("10-a", &[CREATE_CONTAINER], Timed(TIME)).await;
    harness.create("conflict").await.unwrap_err();
    let a = statistics(&harness, "10-a");
    assert_eq!((a.denials, a.conflicts), (1, 0));
}

#[tokio::test]
async fn a_plugin_that_is_launched_or_connects_again_continues_to_count() {
    let mut dirs = Dirs::new();
    let backoff = Some(Duration::from_millis(10));
    dirs.policy(PluginPolicy { restart_backoff: backoff, ..PluginPolicy::default() });
    dirs.plugin("10-dies", &dirs.fixture());
    let (harness, _) = dirs.start().await;
    for times in 2..4 {
        harness.create("c").await.unwrap();
        let request =
            StopContainerRequest { container: Some(container("c")).into(), ..Default::default() };
        // The fixture exits at a stop.
        harness.adaptation.stop_container(request, async |_| ()).await;
        harness.log.wait_times("manager 10-dies Active", times).await;
    }
    let launched = statistics(&harness, "10-dies");
    assert_eq!((launched.restarts, launched.latency().count()), (2, 4), "{launched:?}");
    assert_eq!(launched.events.iter().map(|e| e.failures.disconnects).sum::<u64>(), 2);

    for times in 1..3 {
        let peer = harness.plugin("20-external", &[CREATE_CONTAINER], Quiet).await;
        harness.create("c").await.unwrap();
        peer.end.close();
        harness.log.wait_times("manager 20-external Closed", times).await;
    }
    let external = statistics(&harness, "20-external");
    assert_eq!((external.restarts, external.latency().count()), (1, 2), "{external:?}");
    harness.adaptation.shutdown().await;
}
