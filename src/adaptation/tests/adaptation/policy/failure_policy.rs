//! The failure policy that a plugin requests (`FailurePolicy` of the protocol), together with that
//! of the administrator.

use crate::harness::*;
use async_trait::async_trait;
use nri_adaptation::{AdaptationConfig, FailureHandling, OnFailure, PluginPolicy};
use nri_adaptation::{PluginState, RequestedFailurePolicy};
use nri_api::EventMask;
use nri_api::proto::Event::*;
use nri_api::proto::*;
use nri_wire::{PluginEnd, RuntimeClient, status, ttrpc};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// All combinations of what the plugin requests and what the administrator configures.
///
/// `plugin`: `none`, or the fields that are set. `on_failure`: unset is `ignore`. `timeouts`:
/// `consecutive_timeouts`. `request`: a request that times out, or whose plugin disconnects.
/// `first`, `second`: the session after the first and the second timeout in a row.
const TABLE: &str = "
    plugin     on_failure timeouts | request  first  second
    none       ignore     unset    | proceeds closed closed
    none       ignore     0        | proceeds kept   kept
    none       ignore     1        | proceeds closed closed
    none       ignore     2        | proceeds kept   closed
    none       fail       unset    | fails    closed closed
    none       fail       0        | fails    kept   kept
    none       fail       1        | fails    closed closed
    none       fail       2        | fails    kept   closed
    -          ignore     unset    | proceeds closed closed
    -          ignore     0        | proceeds kept   kept
    -          ignore     1        | proceeds closed closed
    -          ignore     2        | proceeds kept   closed
    -          fail       unset    | fails    closed closed
    -          fail       0        | fails    kept   kept
    -          fail       1        | fails    closed closed
    -          fail       2        | fails    kept   closed
    fail       ignore     unset    | fails    closed closed
    fail       ignore     0        | fails    kept   kept
    fail       ignore     1        | fails    closed closed
    fail       ignore     2        | fails    kept   closed
    fail       fail       unset    | fails    closed closed
    fail       fail       0        | fails    kept   kept
    fail       fail       1        | fails    closed closed
    fail       fail       2        | fails    kept   closed
    keep       ignore     unset    | proceeds kept   kept
    keep       ignore     0        | proceeds kept   kept
    keep       ignore     1        | proceeds closed closed
    keep       ignore     2        | proceeds kept   closed
    keep       fail       unset    | fails    kept   kept
    keep       fail       0        | fails    kept   kept
    keep       fail       1        | fails    closed closed
    keep       fail       2        | fails    kept   closed
    fail+keep  ignore     unset    | fails    kept   kept
    fail+keep  ignore     0        | fails    kept   kept
    fail+keep  ignore     1        | fails    closed closed
    fail+keep  ignore     2        | fails    kept   closed
    fail+keep  fail       unset    | fails    kept   kept
    fail+keep  fail       0        | fails    kept   kept
    fail+keep  fail       1        | fails    closed closed
    fail+keep  fail       2        | fails    kept   closed
";

/// The same for a validator whose verdict times out: `validation_failure`, unset is `fail`.
const VALIDATORS: &str = "
    plugin     validation_failure | creation session
    none       ignore             | proceeds closed
    none       fail               | fails    closed
    -          ignore             | proceeds closed
    -          fail               | fails    closed
    fail       ignore             | fails    closed
    fail       fail               | fails    closed
    keep       ignore             | proceeds kept
    keep       fail               | fails    kept
    fail+keep  ignore             | fails    kept
    fail+keep  fail               | fails    kept
";

/// Returns the rows of a table, and checks that they are all combinations of the values in front of
/// the line.
fn rows<const N: usize>(table: &'static str, combinations: usize) -> Vec<[&'static str; N]> {
    let cells = |line: &'static str| line.split_whitespace().filter(|cell| *cell != "|");
    let lines = table.trim().lines().skip(1);
    let rows: Vec<[&str; N]> =
        lines.map(|line| cells(line).collect::<Vec<_>>().try_into().expect(line)).collect();
    let conditions = |line: &'static str| line.split('|').next().map(str::trim);
    let different: BTreeSet<_> = table.trim().lines().skip(1).map(conditions).collect();
    assert_eq!((rows.len(), different.len()), (combinations, combinations));
    rows
}

fn requested(plugin: &str) -> Option<FailurePolicy> {
    (plugin != "none").then(|| FailurePolicy {
        fail_request: plugin.contains("fail"),
        keep_connected: plugin.contains("keep"),
        ..Default::default()
    })
}

fn on_failure(word: &str) -> OnFailure {
    if word == "fail" { OnFailure::Fail } else { OnFailure::Ignore }
}

/// A plugin that requests a failure policy, and fails in a way given by the container's id.
struct Requesting {
    events: EventMask,
    policy: Option<FailurePolicy>,
    end: OnceLock<Arc<PluginEnd>>,
    slow: Arc<Gate>,
}

#[async_trait]
impl Script for Arc<Requesting> {
    async fn configure(&self, _: ConfigureRequest) -> Option<ttrpc::Result<ConfigureResponse>> {
        Some(Ok(ConfigureResponse {
            events: self.events.bits(),
            failure_policy: self.policy.clone().into(),
            ..Default::default()
        }))
    }

    async fn create(
        &self,
        _: &RuntimeClient,
        r: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        match &*r.container.id {
            "hang" => std::future::pending().await,
            "slow" => self.slow.pass().await,
            "die" => {
                self.end.get().unwrap().close();
                std::future::pending().await
            }
            "refuse" => return Err(status(ttrpc::Code::UNKNOWN, "no room")),
            _ => {}
        }
        Ok(CreateContainerResponse::new())
    }

    async fn validate(
        &self,
        _: ValidateContainerAdjustmentRequest,
    ) -> ttrpc::Result<ValidateContainerAdjustmentResponse> {
        std::future::pending().await
    }
}

/// Starts an adaptation with this policy for the plugin `10-a`, which requests `plugin`, and a
/// plugin after it.
async fn start(
    policy: PluginPolicy,
    plugin: &str,
    event: Event,
) -> (Harness, Arc<Requesting>, [Peer; 2]) {
    let policies = vec![PluginPolicy { plugin: "a".into(), ..policy }];
    let config = AdaptationConfig { policies, ..AdaptationConfig::default() };
    let harness = Harness::with(config).await;
    let script = Arc::new(Requesting {
        events: EventMask::from_iter([event]),
        policy: requested(plugin),
        end: OnceLock::new(),
        slow: Gate::new(),
    });
    let a = harness.plugin("10-a", &[], script.clone()).await;
    assert!(script.end.set(a.end.clone()).is_ok());
    let b = harness.plugin("20-b", &[CREATE_CONTAINER], Quiet).await;
    (harness, script, [a, b])
}

/// Whether the session of `10-a` continues. The end of a session takes some tasks, but no time.
async fn session(harness: &Harness) -> &'static str {
    run_until_idle().await;
    if harness.active_plugins().contains(&"10-a".to_owned()) { "kept" } else { "closed" }
}

fn outcome<T>(result: &Result<T, String>) -> &'static str {
    if result.is_ok() { "proceeds" } else { "fails" }
}

/// Checks that the error names the plugin, and the plugin's request where that decided.
fn check_error<T>(row: &str, result: Result<T, String>, own: OnFailure) {
    let Err(error) = result else { return };
    assert!(error.contains("plugin 10-a could not handle "), "{row}: {error}");
    let is_requested = error.contains("has asked for it (fail_request)");
    assert_eq!(is_requested, own == OnFailure::Ignore, "{row}: {error}");
}

#[tokio::test(start_paused = true)]
async fn every_combination_of_plugin_and_administrator() {
    for row in rows::<6>(TABLE, 5 * 2 * 4) {
        let [plugin, own, timeouts, request, first, second] = row;
        let row = format!("{row:?}");
        let policy = PluginPolicy {
            on_failure: on_failure(own),
            consecutive_timeouts: timeouts.parse().ok(),
            ..PluginPolicy::default()
        };
        let own = policy.on_failure;
        let (harness, _script, _peers) = start(policy.clone(), plugin, CREATE_CONTAINER).await;
        let result = harness.create("hang").await;
        assert_eq!((outcome(&result), session(&harness).await), (request, first), "{row}");
        check_error(&row, result, own);
        // The remaining plugins receive a request that proceeds, and no other.
        let reached = harness.log.of("20-b create_container").len();
        assert_eq!(reached, usize::from(request == "proceeds"), "{row}");
        if first == "kept" {
            // An error reply is no failure: it fails the request in any case, and is no timeout.
            let refused = harness.create("refuse").await.err().unwrap_or_default();
            assert_eq!(refused, "plugin 10-a refused CREATE_CONTAINER of refuse: no room", "{row}");
            let result = harness.create("hang").await;
            assert_eq!((outcome(&result), session(&harness).await), (request, "kept"), "{row}");
            let result = harness.create("hang").await;
            assert_eq!((outcome(&result), session(&harness).await), (request, second), "{row}");
        }
        // A lost connection ends every session.
        let (harness, _script, _peers) = start(policy, plugin, CREATE_CONTAINER).await;
        let result = harness.create("die").await;
        assert_eq!((outcome(&result), session(&harness).await), (request, "closed"), "{row}");
        check_error(&row, result, own);
        // A plugin that is not connected fails no request.
        assert!(harness.create("c").await.is_ok(), "{row}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_combination_of_validator_and_administrator() {
    for row in rows::<4>(VALIDATORS, 5 * 2) {
        let [plugin, own, creation, kept] = row;
        let row = format!("{row:?}");
        let own = on_failure(own);
        let policy = PluginPolicy { validation_failure: own, ..PluginPolicy::default() };
        let (harness, _script, _peers) = start(policy, plugin, VALIDATE_CONTAINER_ADJUSTMENT).await;
        let result = harness.create("c").await;
        assert_eq!((outcome(&result), session(&harness).await), (creation, kept), "{row}");
        check_error(&row, result, own);
    }
}

/// A plugin that stays connected although it does not reply is not one that `required` asks for.
#[tokio::test(start_paused = true)]
async fn a_required_plugin_that_is_kept_connected_has_to_reply() {
    let policy = PluginPolicy { required: true, ..PluginPolicy::default() };
    let (harness, _script, _peers) = start(policy, "keep", CREATE_CONTAINER).await;
    harness.create("c").await.unwrap();
    let error = harness.create("hang").await.unwrap_err();
    assert!(error.starts_with("required plugin a is not active"), "{error}");
    assert_eq!(session(&harness).await, "kept");
    harness.create("d").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_disconnects_between_requests_fails_none() {
    let (harness, script, _peers) =
        start(PluginPolicy::default(), "fail+keep", CREATE_CONTAINER).await;
    harness.create("c").await.unwrap();
    script.end.get().unwrap().close();
    harness.log.wait("manager 10-a Closed").await;
    harness.create("d").await.unwrap();
}

/// The caller's deadline is not the plugin's failure: the plugin keeps its own time for the reply.
#[tokio::test(start_paused = true)]
async fn a_request_that_its_caller_gives_up_is_no_failure() {
    let (harness, script, _peers) = start(PluginPolicy::default(), "fail", CREATE_CONTAINER).await;
    let creating = harness.spawn_create("slow");
    harness.log.wait("10-a create_container slow").await;
    creating.abort();
    assert!(creating.await.unwrap_err().is_cancelled());
    script.slow.open();
    harness.create("c").await.unwrap();
    let status = harness.adaptation.plugins().remove(0);
    assert_eq!((status.state, status.timeouts), (PluginState::Active, 0));
    assert_eq!(status.last_error, None);
}

#[tokio::test(start_paused = true)]
async fn the_handling_in_effect_is_reported_and_follows_a_reload() {
    let (harness, _script, _peers) = start(PluginPolicy::default(), "keep", CREATE_CONTAINER).await;
    let handling = || {
        let plugins = harness.adaptation.plugins();
        assert_eq!(plugins[1].requested_failure_policy, None);
        let requested = RequestedFailurePolicy { fail_request: false, keep_connected: true };
        assert_eq!(plugins[0].requested_failure_policy, Some(requested));
        harness.adaptation.failure_handling(&plugins[0]).unwrap()
    };
    let expected = FailureHandling {
        on_failure: OnFailure::Ignore,
        validation_failure: OnFailure::Fail,
        consecutive_timeouts: 0,
    };
    assert_eq!(handling(), expected);
    let policies = vec![PluginPolicy {
        plugin: "10-a".into(),
        on_failure: OnFailure::Fail,
        consecutive_timeouts: Some(1),
        ..PluginPolicy::default()
    }];
    let plugin_path = "/nonexistent/plugins".into();
    let config = AdaptationConfig { policies, plugin_path, ..AdaptationConfig::default() };
    harness.adaptation.reload(config).await;
    let reloaded =
        FailureHandling { on_failure: OnFailure::Fail, consecutive_timeouts: 1, ..expected };
    assert_eq!(handling(), reloaded);
    let error = harness.create("hang").await.unwrap_err();
    assert!(error.ends_with("no reply within 2s"), "{error}");
    assert_eq!(session(&harness).await, "closed");
}
