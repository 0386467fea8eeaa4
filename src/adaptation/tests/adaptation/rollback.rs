//! Rollback of refused requests, and requests that collect refusals
//! (`RequestContext::consult_all`).

use crate::harness::*;
use async_trait::async_trait;
use nri_adaptation::RequestContext;
use nri_api::proto::Event::*;
use nri_api::proto::*;
use nri_wire::{RuntimeClient, status, ttrpc};

/// Refuses every event that can be refused.
struct Refuses;

fn refusal<T>() -> ttrpc::Result<T> {
    Err(status(ttrpc::Code::UNKNOWN, "no"))
}

#[async_trait]
impl Script for Refuses {
    async fn create(
        &self,
        _: &RuntimeClient,
        _: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        refusal()
    }

    async fn update(&self, _: UpdateContainerRequest) -> ttrpc::Result<UpdateContainerResponse> {
        refusal()
    }

    async fn validate(
        &self,
        _: ValidateContainerAdjustmentRequest,
    ) -> ttrpc::Result<ValidateContainerAdjustmentResponse> {
        refusal()
    }

    async fn event(&self, event: Event, _: &str) -> ttrpc::Result<()> {
        if matches!(event, RUN_POD_SANDBOX | START_CONTAINER | UPDATE_POD_SANDBOX) {
            refusal()
        } else {
            Ok(())
        }
    }
}

const LIFE_CYCLE: &[Event] = &[
    RUN_POD_SANDBOX,
    CREATE_CONTAINER,
    START_CONTAINER,
    STOP_CONTAINER,
    REMOVE_CONTAINER,
    STOP_POD_SANDBOX,
    REMOVE_POD_SANDBOX,
];

fn creation() -> CreateContainerRequest {
    CreateContainerRequest {
        pod: Some(pod("p")).into(),
        container: Some(container("c")).into(),
        ..Default::default()
    }
}

/// Returns the calls that each plugin received after it was synchronized.
fn received(harness: &Harness) -> [Vec<String>; 3] {
    ["10-a", "20-b", "30-c"].map(|name| harness.log.of(name)[1..].to_vec())
}

#[tokio::test(start_paused = true)]
async fn only_plugins_that_received_a_refused_creation_get_its_rollback() {
    let harness = Harness::new().await;
    let _a = harness.plugin("10-a", LIFE_CYCLE, Quiet).await;
    let _b = harness.plugin("20-b", LIFE_CYCLE, Refuses).await;
    let _c = harness.plugin("30-c", LIFE_CYCLE, Quiet).await;

    let context = RequestContext::default();
    let created = harness
        .adaptation
        .create_container(creation(), &context, async |_| (), async |()| ())
        .await;
    assert_eq!(created.unwrap_err().plugin().unwrap().to_string(), "20-b");
    // A plugin that registers now did not receive the creation either.
    let _late = harness.plugin("40-late", LIFE_CYCLE, Quiet).await;
    harness.adaptation.roll_back_creation(&context, pod("p"), container("c"), async |_| ()).await;
    let expected = ["create_container c", "stop_container c", "remove_container c"];
    assert_eq!(received(&harness), [expected.to_vec(), expected.to_vec(), vec![]]);

    let (context, request) = (
        RequestContext::default(),
        RunPodSandboxRequest { pod: Some(pod("p")).into(), ..Default::default() },
    );
    harness.adaptation.run_pod_sandbox(request, &context, async || ()).await.unwrap_err();
    harness.adaptation.roll_back_pod(&context, pod("p")).await;
    let more = ["run_pod_sandbox p", "stop_pod_sandbox p", "remove_pod_sandbox p"];
    let all = [expected, more].concat();
    assert_eq!(received(&harness), [all.clone(), all, vec![]]);
    assert_eq!(harness.log.of("40-late"), ["synchronize "]);
}

#[tokio::test(start_paused = true)]
async fn validators_get_the_rollback_of_a_refused_creation() {
    let harness = Harness::new().await;
    let events = &[VALIDATE_CONTAINER_ADJUSTMENT, REMOVE_CONTAINER];
    let _a = harness.plugin("10-a", &[REMOVE_CONTAINER], Quiet).await;
    let _b = harness.plugin("20-b", events, Refuses).await;
    let _c = harness.plugin("30-c", events, Quiet).await;
    let context = RequestContext::default();
    harness
        .adaptation
        .create_container(creation(), &context, async |_| (), async |()| ())
        .await
        .unwrap_err();
    harness.adaptation.roll_back_creation(&context, pod("p"), container("c"), async |_| ()).await;
    let expected =
        vec!["validate_container_adjustment c".to_owned(), "remove_container c".to_owned()];
    assert_eq!(received(&harness), [vec![], expected.clone(), expected]);
}

#[tokio::test(start_paused = true)]
async fn a_request_too_large_to_be_sent_is_not_rolled_back() {
    for event in [CREATE_CONTAINER, VALIDATE_CONTAINER_ADJUSTMENT] {
        let harness = Harness::new().await;
        let _a = harness.plugin("10-a", &[event, STOP_CONTAINER, REMOVE_CONTAINER], Quiet).await;
        let (context, mut large) = (RequestContext::default(), creation());
        large.container.mut_or_insert_default().args = vec!["x".repeat(1 << 20); 5];
        let created =
            harness.adaptation.create_container(large, &context, async |_| (), async |()| ()).await;
        let error = created.unwrap_err().to_string();
        // 5 MiB of arguments and the other fields: 5242880 bytes and some more.
        assert!(error.contains("takes 52"), "{error}");
        harness
            .adaptation
            .roll_back_creation(&context, pod("p"), container("c"), async |_| ())
            .await;
        assert_eq!(harness.log.of("10-a"), ["synchronize "]);
    }
}

#[tokio::test(start_paused = true)]
async fn with_consult_all_every_plugin_is_called_and_refusals_are_collected() {
    let harness = Harness::new().await;
    let all = &[LIFE_CYCLE, &[UPDATE_CONTAINER, UPDATE_POD_SANDBOX, VALIDATE_CONTAINER_ADJUSTMENT]]
        .concat();
    let _a = harness.plugin("10-a", all, Quiet).await;
    let _b = harness.plugin("20-b", all, Refuses).await;
    let _c = harness.plugin("30-c", all, Quiet).await;
    let adaptation = &harness.adaptation;
    let (p, c) = (|| Some(pod("p")).into(), || Some(container("c")).into());
    let mut refused = Vec::new();
    macro_rules! request {
        ($method:ident($request:expr) $($commit:tt)*) => {{
            let context = RequestContext::consult_all();
            adaptation.$method($request, &context, $($commit)*).await.unwrap();
            refused.extend(context.into_refusals().iter().map(|e| e.plugin().unwrap().to_string()));
        }};
    }
    request!(run_pod_sandbox(RunPodSandboxRequest { pod: p(), ..Default::default() }) async || ());
    let update = UpdatePodSandboxRequest { pod: p(), ..Default::default() };
    request!(update_pod_sandbox(update) async || ());
    request!(create_container(creation()) async |_| (), async |()| harness.log.add("committed"));
    let start = StartContainerRequest { pod: p(), container: c(), ..Default::default() };
    request!(start_container(start) async || ());
    let update = UpdateContainerRequest { pod: p(), container: c(), ..Default::default() };
    request!(update_container(update) async |_| ());
    // 20-b refuses the creation twice: in the reply to it, and as a validator.
    assert_eq!(refused, ["20-b"; 6]);
    assert!(harness.log.all().contains(&"committed".to_owned()));
    let calls = [
        "run_pod_sandbox p",
        "update_pod_sandbox p",
        "create_container c",
        "validate_container_adjustment c",
        "start_container c",
        "update_container c",
    ];
    assert_eq!(received(&harness), [calls; 3]);
}
