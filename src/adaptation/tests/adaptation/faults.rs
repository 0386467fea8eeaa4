//! Tests every fault of a plugin at every call, and its effect on other plugins, on containers and
//! on the duration of requests.
//!
//! The faulty plugin is at the other end of a real socket, between two good ones. The clock is
//! paused while any task can run, so that only timeouts count in the measured time.

use crate::harness::*;
use crate::raw::{self, Fault};
use crate::subscriptions::{ALL_EVENTS, send_all_events};
use nri_adaptation::{AdaptError, AdaptationConfig, OnFailure, PluginPolicy, RequestContext};
use nri_api::proto::Event::{self, *};
use nri_api::proto::StartContainerRequest;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// Timeout of a call, and limit of the delay that a faulty plugin may cause.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the name of the event's method in the protocol.
fn method(event: Event) -> String {
    let words = format!("{event:?}").to_lowercase();
    words.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

/// Connects two good plugins, and between them one that subscribes to `events` and fails at the
/// call `at`.
async fn harness(
    events: &[Event],
    at: &str,
    fault: Fault,
    on_failure: OnFailure,
) -> (Harness, [Peer; 2], JoinHandle<bool>) {
    let policies =
        vec![PluginPolicy { plugin: "20-b".into(), on_failure, ..PluginPolicy::default() }];
    let harness = Harness::with(AdaptationConfig {
        request_timeout: TIMEOUT,
        policies,
        ..AdaptationConfig::default()
    })
    .await;
    let good = [harness.plugin("10-a", &[], Quiet).await, harness.plugin("30-c", &[], Quiet).await];
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (events, at) = (events.iter().copied().collect(), at.to_owned());
    tokio::spawn(async move { raw::plugin(theirs, "20-b", events, &at, fault).await });
    let adaptation = harness.adaptation.clone();
    let connecting = tokio::spawn(async move { adaptation.connect(ours, None).await.is_ok() });
    (harness, good, connecting)
}

/// Checks that the good plugins received all events in order, after the first `before` calls.
fn check_received(harness: &Harness, before: [usize; 2], context: &str) {
    let expected: Vec<_> = ALL_EVENTS.iter().map(|(_, received)| *received).collect();
    for (name, before) in ["10-a", "30-c"].into_iter().zip(before) {
        assert_eq!(harness.log.of(name)[before..], expected, "{name}, {context}");
    }
}

/// Checks that a failed request reached the good plugin before the faulty one, but not the good
/// plugin after it, and that both received all other events.
fn check_received_with_failure(harness: &Harness, failed: Event, context: &str) {
    let validation =
        |event: Event| failed == CREATE_CONTAINER && event == VALIDATE_CONTAINER_ADJUSTMENT;
    for (name, is_first) in [("10-a", true), ("30-c", false)] {
        let received = ALL_EVENTS
            .iter()
            .filter(|(event, _)| !validation(*event) && (is_first || *event != failed));
        let expected: Vec<_> = received.map(|(_, received)| *received).collect();
        assert_eq!(calls_without_other(harness, name), expected, "{name}, {context}");
    }
}

/// Returns the calls that a good plugin received after its synchronization, without calls for the
/// container `other`.
fn calls_without_other(harness: &Harness, name: &str) -> Vec<String> {
    harness.log.of(name)[1..]
        .iter()
        .filter(|received| !received.ends_with(" other"))
        .cloned()
        .collect()
}

/// Creates and starts the container `other` during the fault. Returns the results and the duration.
async fn request_for_other(
    harness: &Harness,
    received: &str,
) -> (Result<(), String>, Result<(), AdaptError>, Duration) {
    harness.log.wait(&format!("10-a {received}")).await;
    run_until_idle().await;
    let start = Instant::now();
    let request =
        StartContainerRequest { container: Some(container("other")).into(), ..Default::default() };
    let (creating, adaptation) = (harness.spawn_create("other"), harness.adaptation.clone());
    let starting = tokio::spawn(async move {
        adaptation.start_container(request, &RequestContext::default(), async || ()).await
    });
    let created = creating.await.unwrap().map(drop);
    (created, starting.await.unwrap(), start.elapsed())
}

/// Whether the failure of a plugin can fail the request.
fn can_fail(event: Event) -> bool {
    let fallible =
        [RUN_POD_SANDBOX, UPDATE_POD_SANDBOX, CREATE_CONTAINER, START_CONTAINER, UPDATE_CONTAINER];
    fallible.contains(&event)
}

/// Whether the fault is harmless: if the reply to the event has no fields, the fields of another
/// message are taken for fields of a newer protocol, and ignored.
fn is_harmless(event: Event, fault: Fault) -> bool {
    let with_content =
        [CREATE_CONTAINER, UPDATE_CONTAINER, STOP_CONTAINER, VALIDATE_CONTAINER_ADJUSTMENT];
    fault == Fault::OtherMessage && !with_content.contains(&event)
}

/// Checks one combination of event, fault and policy: sends all events during the fault, and again
/// after the faulty plugin is closed.
async fn check(event: Event, received: &str, fault: Fault, on_failure: OnFailure) {
    let context = format!("{fault:?} at {event:?}, {on_failure:?}");
    // The plugin subscribes to no other event: as a validator it would refuse every creation once
    // it is closed.
    let (harness, _good, connecting) = harness(&[event], &method(event), fault, on_failure).await;
    assert!(connecting.await.unwrap(), "{context}");
    assert_eq!(harness.active_plugins(), ["10-a", "20-b", "30-c"], "{context}");

    let start = Instant::now();
    let ((errors, took), (created, started, delay)) = tokio::join!(
        async { (send_all_events(&harness).await, start.elapsed()) },
        request_for_other(&harness, received)
    );
    assert!(took <= TIMEOUT, "{context}: the events took {took:?}");
    // A missing verdict counts as a rejection. All other requests continue without the plugin,
    // unless its policy is to fail them. A stop cannot fail, but reports failures.
    let is_fault = !is_harmless(event, fault);
    let fails = is_fault && on_failure == OnFailure::Fail;
    let is_reported = (event == VALIDATE_CONTAINER_ADJUSTMENT && is_fault)
        || (fails && (can_fail(event) || event == STOP_CONTAINER));
    let subject = received.rsplit(' ').next().unwrap();
    let unavailable = |id: &str| format!("plugin 20-b could not handle {event:?} of {id}: ");
    if is_reported {
        assert_eq!(errors.len(), 1, "{context}: {errors:?}");
        assert!(errors[0].starts_with(&unavailable(subject)), "{context}: {errors:?}");
    } else {
        assert_eq!(errors, [""; 0], "{context}");
    }
    if fails && can_fail(event) {
        check_received_with_failure(&harness, event, &context);
    } else {
        let all: Vec<_> = ALL_EVENTS.iter().map(|(_, received)| *received).collect();
        for name in ["10-a", "30-c"] {
            assert_eq!(calls_without_other(&harness, name), all, "{name}, {context}");
        }
    }

    // Another container waits for the timeout of the same call at most, and fails only if its own
    // request needs the plugin.
    assert!(delay <= TIMEOUT, "{context}: the other container waited {delay:?}");
    for (result, concerned) in [
        (created, matches!(event, CREATE_CONTAINER | VALIDATE_CONTAINER_ADJUSTMENT)),
        (started.map_err(|e| e.to_string()), event == START_CONTAINER),
    ] {
        match result {
            Ok(()) => {}
            Err(e) => assert!(
                concerned && is_reported && e.starts_with(&unavailable("other")),
                "{context}: {e}"
            ),
        }
    }
    let of_other = |name: &str| {
        harness.log.of(name).into_iter().filter(|received| received.ends_with(" other")).count()
    };
    // The calls for `other` are creation, validation and start.
    let (first, second) = (of_other("10-a"), of_other("30-c"));
    assert!(
        first <= 3 && second <= first && (is_reported || second == 3),
        "{context}: {first} {second}"
    );

    if !is_fault {
        run_until_idle().await;
        assert_eq!(harness.active_plugins(), ["10-a", "20-b", "30-c"], "{context}");
        return;
    }
    // Ends before the limit of `Log::wait`, so that a failure has the context.
    let closed = timeout(Duration::from_secs(50), harness.log.wait("manager 20-b Closed"));
    closed.await.unwrap_or_else(|_| panic!("{context}: the plugin was not closed"));
    assert_eq!(harness.active_plugins(), ["10-a", "30-c"], "{context}");
    let (start, before) = (Instant::now(), ["10-a", "30-c"].map(|name| harness.log.of(name).len()));
    assert_eq!(send_all_events(&harness).await, [""; 0], "{context}");
    assert_eq!(start.elapsed(), Duration::ZERO, "{context}");
    check_received(&harness, before, &context);
}

#[tokio::test(start_paused = true)]
async fn every_fault_at_every_event_leaves_other_plugins_and_containers_unaffected() {
    let mut combinations = 0;
    for fault in Fault::ALL {
        for (event, received) in ALL_EVENTS {
            for on_failure in [OnFailure::Ignore, OnFailure::Fail] {
                check(event, received, fault, on_failure).await;
                combinations += 1;
            }
        }
    }
    assert_eq!(combinations, 13 * 14 * 2, "not each fault at each event with both policies");
}

#[tokio::test(start_paused = true)]
async fn every_fault_during_registration_leaves_other_plugins_unaffected() {
    for fault in Fault::ALL {
        for at in ["Configure", "Synchronize"] {
            let context = format!("{fault:?} at {at}");
            let (harness, _good, connecting) =
                harness(&[CREATE_CONTAINER], at, fault, OnFailure::Ignore).await;
            let start = Instant::now();
            assert_eq!(send_all_events(&harness).await, [""; 0], "{context}");
            assert!(start.elapsed() <= TIMEOUT, "{context}: {:?}", start.elapsed());
            assert!(!connecting.await.unwrap(), "{context}");
            let limit = AdaptationConfig::default().synchronization_timeout;
            assert!(start.elapsed() <= limit, "{context}: {:?}", start.elapsed());
            harness.log.wait("manager 20-b Closed").await;
            assert_eq!(harness.active_plugins(), ["10-a", "30-c"], "{context}");
            // The first call was the synchronization.
            check_received(&harness, [1, 1], &context);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_never_registers_blocks_no_request() {
    let harness = Harness::new().await;
    let _good =
        [harness.plugin("10-a", &[], Quiet).await, harness.plugin("30-c", &[], Quiet).await];
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let adaptation = harness.adaptation.clone();
    let connecting = tokio::spawn(async move { adaptation.connect(ours, Some(7)).await });
    run_until_idle().await;
    let start = Instant::now();
    assert_eq!(send_all_events(&harness).await, [""; 0]);
    assert_eq!(start.elapsed(), Duration::ZERO);
    check_received(&harness, [1, 1], "unregistered plugin");
    assert_eq!(connecting.await.unwrap().unwrap_err().to_string(), "did not register within 5s");
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    let listed = harness.adaptation.plugins().pop().unwrap();
    assert_eq!(
        (listed.pid, listed.last_error.as_deref()),
        (Some(7), Some("did not register within 5s"))
    );
}
