//! Validators, the built-in validator, and required plugins.

use crate::harness::*;
use async_trait::async_trait;
use nri_adaptation::{
    AdaptationConfig, DefaultValidatorConfig, OnFailure, PluginPolicy, RequestContext,
};
use nri_api::PluginId;
use nri_api::proto::Event::*;
use nri_api::proto::*;
use nri_wire::{RuntimeClient, status, ttrpc};
use std::sync::{Arc, Mutex};
use tokio::sync::Barrier;

/// Adds a hook, an annotation and an update of another container.
struct Adjust;

#[async_trait]
impl Script for Adjust {
    async fn create(
        &self,
        _: &RuntimeClient,
        _: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        let mut reply = annotate("k", "v");
        let hook = Hook { path: "/bin/hook".into(), ..Default::default() };
        reply.adjust.mut_or_insert_default().hooks.mut_or_insert_default().prestart.push(hook);
        reply.update.push(shares("other", 5));
        Ok(reply)
    }
}

/// Replies with the given verdict, and records the request.
struct Validator(&'static str, Arc<Mutex<Option<ValidateContainerAdjustmentRequest>>>);

#[async_trait]
impl Script for Validator {
    async fn validate(
        &self,
        r: ValidateContainerAdjustmentRequest,
    ) -> ttrpc::Result<ValidateContainerAdjustmentResponse> {
        *self.1.lock().unwrap() = Some(r);
        let (reject, reason) = match self.0 {
            "accept" => (false, ""),
            "reject" => (true, "too much"),
            "reject silently" => (true, ""),
            "hang" => std::future::pending().await,
            _ => return Err(status(ttrpc::Code::UNKNOWN, "broken")),
        };
        Ok(ValidateContainerAdjustmentResponse {
            reject,
            reason: reason.into(),
            ..Default::default()
        })
    }
}

fn validator(verdict: &'static str) -> Validator {
    Validator(verdict, Arc::default())
}

/// End of the error for a validator that does not reply.
const NO_VERDICT: &str = "; the container is refused without the validator's verdict, unless \
                          validation_failure of its policy is \"ignore\" (on_failure does not \
                          apply to verdicts)";

const VALIDATE: &[Event] = &[VALIDATE_CONTAINER_ADJUSTMENT];

/// Creates a container with a plugin that adjusts it and validators with these verdicts.
async fn check(verdicts: &[&'static str], expected: Result<(), &str>) {
    let harness = Harness::new().await;
    let _adjust = harness.plugin("50-adjust", &[CREATE_CONTAINER], Adjust).await;
    let mut peers = Vec::new();
    for (i, verdict) in verdicts.iter().enumerate() {
        peers.push(harness.plugin(&format!("{i:02}-v"), VALIDATE, validator(verdict)).await);
    }
    let result = harness.create("c").await;
    assert_eq!(result.as_ref().map(|_| ()).map_err(|e| &**e), expected, "{verdicts:?}");
    assert_eq!(harness.log.of("commit").is_empty(), expected.is_err(), "{verdicts:?}");
    for i in 0..verdicts.len() {
        assert_eq!(harness.log.of(&format!("{i:02}-v validate_container_adjustment")), ["c"]);
    }
}

#[tokio::test(start_paused = true)]
async fn any_rejection_fails_the_creation() {
    check(&["accept", "accept"], Ok(())).await;
    let by = |n: usize, reason: &str| {
        format!("validator {n:02}-v rejected the adjustment of c: {reason}")
    };
    check(&["accept", "reject"], Err(&by(1, "too much"))).await;
    check(&["reject", "accept", "reject silently"], Err(&by(0, "too much"))).await;
    check(&["reject silently"], Err(&by(0, "no reason given"))).await;
    let broken = "plugin 01-v refused VALIDATE_CONTAINER_ADJUSTMENT of c: broken";
    check(&["accept", "broken"], Err(broken)).await;
    let late = format!(
        "plugin 00-v could not handle VALIDATE_CONTAINER_ADJUSTMENT of c: no reply within \
         2s{NO_VERDICT}"
    );
    check(&["hang", "accept"], Err(&late)).await;
}

#[tokio::test(start_paused = true)]
async fn a_validator_gets_the_original_container_and_the_merged_adjustment() {
    let harness = Harness::new().await;
    let request = Arc::default();
    let _validator =
        harness.plugin("00-v", VALIDATE, Validator("accept", Arc::clone(&request))).await;
    let _adjust = harness.plugin("50-adjust", &[CREATE_CONTAINER], Adjust).await;
    harness.create("c").await.unwrap();
    let request = request.lock().unwrap().take().unwrap();
    assert_eq!(*request.pod, pod("p"));
    assert_eq!(*request.container, container("c"), "the validator got an adjusted container");
    assert_eq!(request.adjust.annotations["k"], "v");
    assert_eq!(request.update, [shares("other", 5)]);
    assert_eq!(
        request.owners.owners["c"].compound[&(Field::Annotations as i32)].owners["k"],
        "50-adjust"
    );
    let plugins: Vec<_> =
        request.plugins.iter().map(|p| (p.index.as_str(), p.name.as_str())).collect();
    assert_eq!(plugins, [("00", "v"), ("50", "adjust")]);
}

#[tokio::test(start_paused = true)]
async fn validators_are_called_in_parallel_after_all_adjustments() {
    /// Waits in the validation until the other validator was called too.
    struct Meet(Arc<Barrier>);
    #[async_trait]
    impl Script for Meet {
        async fn validate(
            &self,
            _: ValidateContainerAdjustmentRequest,
        ) -> ttrpc::Result<ValidateContainerAdjustmentResponse> {
            self.0.wait().await;
            Ok(Default::default())
        }
    }
    let (harness, meeting) = (Harness::new().await, Arc::new(Barrier::new(2)));
    let both = &[CREATE_CONTAINER, VALIDATE_CONTAINER_ADJUSTMENT];
    let _a = harness.plugin("10-a", both, Meet(meeting.clone())).await;
    let _b = harness.plugin("20-b", both, Meet(meeting)).await;
    harness.create("c").await.unwrap();
    let (first, last) = (
        harness.log.all().iter().position(|e| e.contains(" validate_")).unwrap(),
        harness.log.all().iter().rposition(|e| e.contains(" create_")).unwrap(),
    );
    assert!(last < first, "{:?}", harness.log.all());
}

#[tokio::test(start_paused = true)]
async fn a_validator_gets_one_call_at_a_time() {
    // 20-slow delays c1 until 10-v handles the creation of c2. The validation of c1 must then wait
    // for 10-v.
    let (harness, gate) = (Harness::new().await, Gate::new());
    /// Adjusts and validates. Blocks the creation of c2 until the gate opens.
    struct Both(Arc<Gate>);
    #[async_trait]
    impl Script for Both {
        async fn create(
            &self,
            _: &RuntimeClient,
            r: CreateContainerRequest,
        ) -> ttrpc::Result<CreateContainerResponse> {
            if r.container.id == "c2" {
                self.0.pass().await;
            }
            Ok(Default::default())
        }
    }
    let both = &[CREATE_CONTAINER, VALIDATE_CONTAINER_ADJUSTMENT];
    let _v = harness.plugin("10-v", both, Both(gate.clone())).await;
    let slow = Gate::new();
    /// Blocks creations until the gate opens.
    struct Slow(Arc<Gate>);
    #[async_trait]
    impl Script for Slow {
        async fn create(
            &self,
            _: &RuntimeClient,
            _: CreateContainerRequest,
        ) -> ttrpc::Result<CreateContainerResponse> {
            self.0.pass().await;
            Ok(Default::default())
        }
    }
    let _slow = harness.plugin("20-slow", &[CREATE_CONTAINER], Slow(slow.clone())).await;
    let first = harness.spawn_create("c1");
    harness.log.wait("20-slow create_container c1").await;
    let second = harness.spawn_create("c2");
    harness.log.wait("10-v create_container c2").await;
    slow.open(); // c1 is validated next, while the validator handles c2
    run_until_idle().await;
    assert_eq!(harness.log.of("10-v validate_container_adjustment"), [""; 0]);
    gate.open();
    slow.open();
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    assert_eq!(harness.log.of("10-v validate_container_adjustment"), ["c1", "c2"]);
}

#[tokio::test(start_paused = true)]
async fn the_built_in_validator_rejects_by_its_rules() {
    let rules = DefaultValidatorConfig { reject_oci_hook_adjustment: true, ..Default::default() };
    let harness = Harness::with(AdaptationConfig {
        default_validator: Some(rules),
        ..AdaptationConfig::default()
    })
    .await;
    assert!(
        harness.adaptation.needs_request(CREATE_CONTAINER),
        "the rules of the validator apply without plugins too"
    );
    harness.create("c1").await.unwrap();
    let _adjust = harness.plugin("50-adjust", &[CREATE_CONTAINER], Adjust).await;
    let error = harness.create("c2").await.unwrap_err();
    let start = "validator default-validator rejected the adjustment of c2: ";
    assert!(error.starts_with(start) && error.contains("50-adjust"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn no_container_is_created_without_a_required_plugin() {
    let required =
        |plugin: &str| PluginPolicy { plugin: plugin.into(), required: true, ..Default::default() };
    let harness = Harness::with(AdaptationConfig {
        policies: vec![required("a"), required("20-b")],
        ..AdaptationConfig::default()
    })
    .await;
    let missing = |name| format!("required plugin {name} is not active, so c cannot be created");
    assert!(harness.adaptation.needs_request(CREATE_CONTAINER));
    assert_eq!(harness.create("c").await.unwrap_err(), missing("a"));
    // A required plugin need not subscribe to creations.
    let a = harness.plugin("77-a", &[STOP_CONTAINER], Quiet).await;
    assert_eq!(harness.create("c").await.unwrap_err(), missing("20-b"));
    // The policy names 20-b with its index, so another plugin named b does not suffice.
    let _other = harness.plugin("21-b", &[], Quiet).await;
    assert_eq!(harness.create("c").await.unwrap_err(), missing("20-b"));

    /// Closes the session during `CreateContainer` if the test has stored the plugin's end here.
    struct Leave(Arc<Mutex<Option<Arc<nri_wire::PluginEnd>>>>);
    #[async_trait]
    impl Script for Leave {
        async fn create(
            &self,
            _: &RuntimeClient,
            _: CreateContainerRequest,
        ) -> ttrpc::Result<CreateContainerResponse> {
            if let Some(end) = self.0.lock().unwrap().take() {
                end.close();
            }
            Ok(Default::default())
        }
    }
    let end = Arc::default();
    let b = harness.plugin("20-b", &[CREATE_CONTAINER], Leave(Arc::clone(&end))).await;
    harness.create("c").await.unwrap();
    *end.lock().unwrap() = Some(b.end.clone());
    assert_eq!(
        harness.create("c").await.unwrap_err(),
        missing("20-b"),
        "20-b disconnected during the request"
    );
    a.end.close();
    harness.log.wait("manager 77-a Closed").await;
    assert_eq!(harness.create("c").await.unwrap_err(), missing("a"));
}

#[tokio::test(start_paused = true)]
async fn a_field_of_a_required_plugin_is_not_updated_without_it() {
    let policy = PluginPolicy { plugin: "a".into(), required: true, ..Default::default() };
    let harness =
        Harness::with(AdaptationConfig { policies: vec![policy], ..AdaptationConfig::default() })
            .await;
    let update = async |owners: &[(&str, &str)]| {
        let owned = owners
            .iter()
            .map(|(field, owner)| ((*field).to_owned(), PluginId::from_file_name(owner).unwrap()));
        let context = RequestContext::default().with_owned(owned.collect());
        let container = Some(container("c")).into();
        let request = UpdateContainerRequest { container, ..Default::default() };
        let updated = harness.adaptation.update_container(request, &context, async |_| ()).await;
        updated.map_err(|e| e.to_string())
    };
    let missing = "required plugin 10-a is not active, so cpu.cpus of c, which it has set, cannot \
        be updated";
    let owned = [("memory.limit", "20-b"), ("cpu.cpus", "10-a")];
    assert_eq!(update(&owned).await.unwrap_err(), missing);
    for others in [&owned[..0], &owned[..1]] {
        update(others).await.unwrap();
    }
    // It need not subscribe to updates, and may have got another index.
    let a = harness.plugin("77-a", &[STOP_CONTAINER], Quiet).await;
    update(&owned).await.unwrap();
    a.end.close();
    harness.log.wait("manager 77-a Closed").await;
    assert_eq!(update(&owned).await.unwrap_err(), missing);
}

/// Never replies to `CreateContainer`.
struct HangingAdjuster;

#[async_trait]
impl Script for HangingAdjuster {
    async fn create(
        &self,
        _: &RuntimeClient,
        _: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        std::future::pending().await
    }
}

/// If `on_failure` let containers pass without a verdict, a plugin could avoid validation by making
/// the validator hang. A validator that closed during the creation counts as without a verdict too.
#[tokio::test(start_paused = true)]
async fn only_validation_failure_permits_a_container_without_a_verdict() {
    let both = &[CREATE_CONTAINER, VALIDATE_CONTAINER_ADJUSTMENT];
    for on_failure in [OnFailure::Ignore, OnFailure::Fail] {
        for validation_failure in [OnFailure::Ignore, OnFailure::Fail] {
            let policy = PluginPolicy {
                plugin: "v".into(),
                on_failure,
                validation_failure,
                ..PluginPolicy::default()
            };
            let config = || AdaptationConfig {
                policies: vec![policy.clone()],
                ..AdaptationConfig::default()
            };
            let case = format!("{on_failure:?} {validation_failure:?}");
            // The session is closed because the validator returns no verdict in time.
            let harness = Harness::with(config()).await;
            let _validator = harness.plugin("00-v", VALIDATE, validator("hang")).await;
            let result = harness.create("c").await;
            assert_eq!(result.is_ok(), validation_failure == OnFailure::Ignore, "{case}");
            if let Err(error) = result {
                assert!(error.ends_with(NO_VERDICT), "{case}: {error}");
            }
            // The session is closed before the validation of the same creation.
            let harness = Harness::with(config()).await;
            let _plugin = harness.plugin("00-v", both, HangingAdjuster).await;
            let result = harness.create("c").await;
            let passes = [on_failure, validation_failure].iter().all(|f| *f == OnFailure::Ignore);
            assert_eq!(result.is_ok(), passes, "{case}");
            if let Err(error) = result {
                // With `Fail`, the creation already fails before the validation.
                let is_for_verdict = error.ends_with(NO_VERDICT);
                assert_eq!(is_for_verdict, on_failure == OnFailure::Ignore, "{case}: {error}");
            }
        }
    }
}
