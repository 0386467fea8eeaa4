//! Plugins that do not reply, and their failure policies.

use crate::harness::*;
use async_trait::async_trait;
use nri_adaptation::{AdaptationConfig, OnFailure, PluginPolicy, RequestContext};
use nri_api::proto::Event::*;
use nri_api::proto::*;
use nri_wire::{PluginEnd, RuntimeClient, status, ttrpc};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A plugin that fails the creation of a container in a way given by the container's id.
struct Bad(OnceLock<Arc<PluginEnd>>);

#[async_trait]
impl Script for Arc<Bad> {
    async fn create(
        &self,
        _: &RuntimeClient,
        r: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        match &*r.container.id {
            "hang" => std::future::pending().await,
            "die" => {
                self.0.get().unwrap().close();
                std::future::pending().await
            }
            "refuse" => Err(status(ttrpc::Code::UNKNOWN, "no room")),
            "panic" => panic!("on purpose"),
            _ => Ok(CreateContainerResponse::new()),
        }
    }
}

/// Creates containers one after the other with a failing plugin between two good ones, and checks
/// the results and the plugins that are active afterwards.
async fn check(
    policy: PluginPolicy,
    containers: &[(&str, Result<(), &str>)],
    active_after: &[&str],
) {
    let harness = Harness::with(AdaptationConfig {
        policies: vec![policy.clone()],
        ..AdaptationConfig::default()
    })
    .await;
    let bad = Arc::new(Bad(OnceLock::new()));
    let _a = harness.plugin("10-a", &[CREATE_CONTAINER], Quiet).await;
    let b = harness.plugin("20-b", &[CREATE_CONTAINER], bad.clone()).await;
    let _c = harness.plugin("30-c", &[CREATE_CONTAINER], Quiet).await;
    assert!(bad.0.set(b.end.clone()).is_ok());
    let mut is_closed = false;
    for (id, expected) in containers {
        let result = harness.create(id).await;
        // 20-b does not reply. If it is expected to be closed in the end, later requests skip it.
        let skipped = matches!(*id, "hang" | "die");
        is_closed |= skipped && active_after == OTHERS;
        assert_eq!(
            result.as_ref().map(|_| ()).map_err(|e| &**e),
            *expected,
            "{id} with {policy:?}"
        );
        if let Ok(outcome) = result {
            let consulted: Vec<_> = outcome.consulted.iter().map(ToString::to_string).collect();
            assert_eq!(
                consulted,
                if skipped || is_closed { OTHERS } else { ALL },
                "{id} with {policy:?}"
            );
        }
    }
    if !active_after.contains(&"20-b") {
        harness.log.wait("manager 20-b Closed").await;
    }
    assert_eq!(harness.active_plugins(), active_after, "{policy:?}");
}

fn policy(on_failure: OnFailure, consecutive_timeouts: u32) -> PluginPolicy {
    let consecutive_timeouts = Some(consecutive_timeouts);
    PluginPolicy { plugin: "b".into(), on_failure, consecutive_timeouts, ..PluginPolicy::default() }
}

/// All plugins, and the plugins other than the failing one.
const ALL: &[&str] = &["10-a", "20-b", "30-c"];
const OTHERS: &[&str] = &["10-a", "30-c"];
const REFUSED: &str = "plugin 20-b refused CREATE_CONTAINER of refuse: no room";
const LATE: &str = "plugin 20-b could not handle CREATE_CONTAINER of hang: no reply within 2s";
const DEAD: &str =
    "plugin 20-b could not handle CREATE_CONTAINER of die: the plugin closed the connection";

#[tokio::test(start_paused = true)]
async fn a_dead_plugin_does_not_fail_create() {
    check(PluginPolicy::default(), &[("die", Ok(())), ("c", Ok(()))], OTHERS).await;
}

#[tokio::test(start_paused = true)]
async fn a_hanging_plugin_does_not_fail_create() {
    check(PluginPolicy::default(), &[("c", Ok(())), ("hang", Ok(()))], OTHERS).await;
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_refuses_fails_create_and_stays_connected() {
    check(PluginPolicy::default(), &[("refuse", Err(REFUSED)), ("c", Ok(()))], ALL).await;
}

#[tokio::test(start_paused = true)]
async fn a_plugin_without_reply_fails_the_request_if_on_failure_is_fail() {
    let policy = policy(OnFailure::Fail, 1);
    check(policy.clone(), &[("hang", Err(LATE)), ("c", Ok(()))], OTHERS).await;
    check(policy, &[("die", Err(DEAD))], OTHERS).await;
}

#[tokio::test(start_paused = true)]
async fn a_plugin_is_closed_after_its_limit_of_consecutive_timeouts() {
    let ignore = |n| policy(OnFailure::Ignore, n);
    let hang = ("hang", Ok(()));
    check(ignore(3), &[hang, hang], ALL).await;
    check(ignore(3), &[hang, hang, hang], OTHERS).await;
    check(ignore(3), &[hang, hang, ("c", Ok(())), hang, hang], ALL).await;
    check(ignore(3), &[hang, hang, ("refuse", Err(REFUSED)), hang, hang], ALL).await;
    // 0 means no limit.
    check(ignore(0), &[hang; 20], ALL).await;
}

#[tokio::test(start_paused = true)]
async fn a_plugin_gets_the_timeout_of_its_policy() {
    let policy =
        PluginPolicy { timeout: Some(Duration::from_secs(30)), ..policy(OnFailure::Fail, 0) };
    let late = "plugin 20-b could not handle CREATE_CONTAINER of hang: no reply within 30s";
    check(policy, &[("hang", Err(late))], ALL).await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_plugin_fails_the_request_and_keeps_the_session() {
    let harness = Harness::new().await;
    let _b = harness.plugin("20-b", &[CREATE_CONTAINER], Arc::new(Bad(OnceLock::new()))).await;
    let error = harness.create("panic").await.unwrap_err();
    assert!(error.starts_with("plugin 20-b failed CREATE_CONTAINER of panic: "), "{error}");
    let last_error = harness.adaptation.plugins().remove(0).last_error;
    assert!(last_error.is_some_and(|error| error.contains("panic")), "a panic is no refusal");
    harness.create("c").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_timeout_while_this_process_was_stopped_does_not_count() {
    let harness = Harness::with(AdaptationConfig {
        policies: vec![policy(OnFailure::Ignore, 1)],
        ..AdaptationConfig::default()
    })
    .await;
    let _b = harness.plugin("20-b", &[CREATE_CONTAINER], Arc::new(Bad(OnceLock::new()))).await;
    let creating = harness.spawn_create("hang");
    // The yields let the call be sent. Then the clock jumps, as after SIGSTOP and SIGCONT.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    tokio::time::advance(Duration::from_secs(30)).await;
    creating.await.unwrap().unwrap();
    let status = harness.adaptation.plugins().remove(0);
    assert_eq!((status.timeouts, status.last_error, status.state.has_ended()), (0, None, false));
    harness.create("c").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_status_reports_timeouts_and_the_last_error() {
    let harness = Harness::with(AdaptationConfig {
        policies: vec![policy(OnFailure::Ignore, 0)],
        ..AdaptationConfig::default()
    })
    .await;
    let _b = harness.plugin("20-b", &[CREATE_CONTAINER], Arc::new(Bad(OnceLock::new()))).await;
    for (id, timeouts, error) in [
        ("c", 0, None),
        ("hang", 1, Some("CREATE_CONTAINER: no reply within 2s")),
        ("hang", 2, Some("CREATE_CONTAINER: no reply within 2s")),
        // A refusal is a reply, and no error of the plugin.
        ("refuse", 0, Some("CREATE_CONTAINER: no reply within 2s")),
        ("c", 0, Some("CREATE_CONTAINER: no reply within 2s")),
    ] {
        let _ = harness.create(id).await;
        let status = harness.adaptation.plugins().remove(0);
        assert_eq!(
            (status.timeouts, status.last_error.as_deref()),
            (timeouts, error),
            "after {id}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_plugin_delays_each_request_by_its_timeout() {
    let config = AdaptationConfig {
        policies: vec![policy(OnFailure::Ignore, 0)],
        ..AdaptationConfig::default()
    };
    let harness = Harness::with(config).await;
    let _b = harness.plugin("20-b", &[CREATE_CONTAINER], Arc::new(Bad(OnceLock::new()))).await;
    let start = tokio::time::Instant::now(); // paused clock, so the time is exact
    let creating: Vec<_> = (0..5).map(|_| harness.spawn_create("hang")).collect();
    for create in creating {
        create.await.unwrap().unwrap();
    }
    assert_eq!(start.elapsed().as_secs(), 10, "not five timeouts of 2 s");
}

#[tokio::test(start_paused = true)]
async fn a_conflict_names_both_plugins_and_the_key() {
    /// Sets PATH to this value.
    struct Env(&'static str);
    #[async_trait]
    impl Script for Env {
        async fn create(
            &self,
            _: &RuntimeClient,
            _: CreateContainerRequest,
        ) -> ttrpc::Result<CreateContainerResponse> {
            let mut reply = CreateContainerResponse::new();
            reply.adjust.mut_or_insert_default().env.push(KeyValue {
                key: "PATH".into(),
                value: self.0.into(),
                ..Default::default()
            });
            Ok(reply)
        }
    }
    let harness = Harness::new().await;
    let _a = harness.plugin("00-a", &[CREATE_CONTAINER], Env("/a")).await;
    let _b = harness.plugin("10-b", &[CREATE_CONTAINER], Env("/b")).await;
    let error = harness.create("c").await.unwrap_err();
    assert_eq!(
        error,
        "CREATE_CONTAINER of c: plugins \"10-b\" and \"00-a\" both tried to set env[PATH]"
    );
    assert_eq!(harness.log.of("commit"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_request_larger_than_a_message_fails_and_the_plugin_stays_connected() {
    let harness = Harness::new().await;
    let _a = harness.plugin("10-a", &[CREATE_CONTAINER], Quiet).await;
    let mut big = container("big");
    big.args = vec!["x".repeat(1 << 20); 4];
    let request = CreateContainerRequest { container: Some(big).into(), ..Default::default() };
    let error = harness
        .adaptation
        .create_container(request, &RequestContext::default(), async |_| (), async |()| ())
        .await
        .unwrap_err();
    assert_eq!(error.fault(), nri_adaptation::Fault::Caller);
    // 4 MiB of arguments and the other fields: 4194304 bytes and some more.
    assert!(error.to_string().starts_with("CREATE_CONTAINER of big takes 4194"), "{error}");
    harness.create("c").await.unwrap();
}

/// Two variables of 3 MiB kept plugins that connected later from all containers.
#[tokio::test(start_paused = true)]
async fn plugins_cannot_make_a_container_larger_than_a_message() {
    /// Adds a large variable of this name.
    struct Large(&'static str);
    #[async_trait]
    impl Script for Large {
        async fn create(
            &self,
            _: &RuntimeClient,
            _: CreateContainerRequest,
        ) -> ttrpc::Result<CreateContainerResponse> {
            let mut reply = CreateContainerResponse::new();
            reply.adjust.mut_or_insert_default().env.push(KeyValue {
                key: self.0.into(),
                value: "x".repeat(3 << 20),
                ..Default::default()
            });
            Ok(reply)
        }
    }
    let harness = Harness::new().await;
    let _a = harness.plugin("10-a", &[CREATE_CONTAINER], Large("A")).await;
    harness.create("c").await.unwrap();
    let _b = harness.plugin("20-b", &[CREATE_CONTAINER], Large("B")).await;
    let error = harness.create("d").await.unwrap_err();
    let expected = "plugin 20-b makes d larger than a message can hold: 6291";
    assert!(error.starts_with(expected), "{error}");
    assert_eq!(harness.active_plugins(), ["10-a", "20-b"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_succeeds_whatever_plugins_reply() {
    /// Refuses the stop, or updates the container of this id.
    struct Stop(&'static str);
    #[async_trait]
    impl Script for Stop {
        async fn stop(&self, _: StopContainerRequest) -> ttrpc::Result<StopContainerResponse> {
            match self.0 {
                "refuse" => Err(status(ttrpc::Code::UNKNOWN, "no")),
                other => Ok(StopContainerResponse {
                    update: vec![shares(other, 7)],
                    ..Default::default()
                }),
            }
        }
    }
    let harness = Harness::new().await;
    let mut peers = Vec::new();
    for (name, what) in [("10-a", "x"), ("20-b", "refuse"), ("30-c", "x"), ("40-d", "y")] {
        peers.push(harness.plugin(name, &[STOP_CONTAINER], Stop(what)).await);
    }
    let request =
        StopContainerRequest { container: Some(container("c")).into(), ..Default::default() };
    let outcome = harness.adaptation.stop_container(request, async |outcome| outcome).await;
    let updates: Vec<_> = outcome.updates.updates.iter().map(|u| u.container_id.as_str()).collect();
    assert_eq!(updates, ["x", "y"]);
    let failures: Vec<_> = outcome.failures.iter().map(ToString::to_string).collect();
    let conflict =
        "STOP_CONTAINER of c: plugins \"30-c\" and \"10-a\" both tried to set cpu.shares";
    assert_eq!(failures, ["plugin 20-b failed STOP_CONTAINER of c: no", conflict]);
}

#[tokio::test(start_paused = true)]
async fn updates_of_plugins_are_merged_over_the_requested_resources() {
    /// Doubles the requested CPU shares, and updates another container.
    struct Update;
    #[async_trait]
    impl Script for Update {
        async fn update(
            &self,
            r: UpdateContainerRequest,
        ) -> ttrpc::Result<UpdateContainerResponse> {
            let requested = r.linux_resources.cpu.shares.value;
            let update = vec![shares("c", requested * 2), shares("other", 3)];
            Ok(UpdateContainerResponse { update, ..Default::default() })
        }
    }
    let harness = Harness::new().await;
    let _a = harness.plugin("10-a", &[UPDATE_CONTAINER], Update).await;
    let resources = shares("c", 100).linux.unwrap().resources;
    let request = UpdateContainerRequest {
        container: Some(container("c")).into(),
        linux_resources: resources,
        ..Default::default()
    };
    let outcome = harness
        .adaptation
        .update_container(request, &RequestContext::default(), async |outcome| outcome)
        .await
        .unwrap();
    assert_eq!(outcome.resources.cpu.shares.value, 200);
    assert_eq!(outcome.updates, [shares("other", 3)]);
}
