//! Budgets of plugins: which requests skip a plugin that got slow, and which plugins none skips.

use crate::harness::*;
use async_trait::async_trait;
use nri_adaptation::{
    AdaptationConfig, Budget, BudgetExemption, OnFailure, PluginPolicy, PluginStatus,
    RequestContext,
};
use nri_api::EventMask;
use nri_api::proto::Event::*;
use nri_api::proto::*;
use nri_wire::{RuntimeClient, ttrpc};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BUDGET: Budget =
    Budget { time: Duration::from_millis(200), share: 50, pause: Duration::from_secs(30) };

const FAST: Duration = Duration::from_millis(100);
const SLOW: Duration = Duration::from_millis(300);

/// A plugin that takes this time for each creation and update, and also validates.
#[derive(Clone)]
struct Timed {
    time: Arc<Mutex<Duration>>,
    fail_request: bool,
}

impl Timed {
    fn new(time: Duration) -> Self {
        Self { time: Arc::new(Mutex::new(time)), fail_request: false }
    }

    fn set(&self, time: Duration) {
        *self.time.lock().unwrap() = time;
    }

    async fn work(&self) {
        let time = *self.time.lock().unwrap();
        tokio::time::sleep(time).await;
    }
}

#[async_trait]
impl Script for Timed {
    async fn configure(&self, _: ConfigureRequest) -> Option<ttrpc::Result<ConfigureResponse>> {
        let policy = FailurePolicy { fail_request: true, ..Default::default() };
        let events: EventMask = EVENTS.iter().copied().collect();
        self.fail_request.then(|| {
            let failure_policy = Some(policy).into();
            Ok(ConfigureResponse { events: events.bits(), failure_policy, ..Default::default() })
        })
    }

    async fn create(
        &self,
        _: &RuntimeClient,
        _: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        self.work().await;
        Ok(CreateContainerResponse::new())
    }

    async fn update(&self, _: UpdateContainerRequest) -> ttrpc::Result<UpdateContainerResponse> {
        self.work().await;
        Ok(UpdateContainerResponse::new())
    }
}

const EVENTS: [Event; 4] =
    [CREATE_CONTAINER, UPDATE_CONTAINER, VALIDATE_CONTAINER_ADJUSTMENT, STOP_CONTAINER];

fn policy(budget: Budget) -> PluginPolicy {
    PluginPolicy { plugin: "a".into(), budget: Some(budget), ..PluginPolicy::default() }
}

async fn start(policies: Vec<PluginPolicy>) -> Harness {
    Harness::with(AdaptationConfig { policies, ..AdaptationConfig::default() }).await
}

/// Creates a container of this name, with an id of its own. Returns the plugins that it missed.
async fn create(harness: &Harness, name: &str) -> Vec<String> {
    static IDS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let id = IDS.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_string();
    let request = CreateContainerRequest {
        pod: Some(pod("p")).into(),
        container: Some(Container { id, name: name.into(), ..Default::default() }).into(),
        ..Default::default()
    };
    let context = RequestContext::default();
    let adaptation = &harness.adaptation;
    adaptation.create_container(request, &context, async |_| (), async |()| ()).await.unwrap();
    context.missed().iter().map(|m| format!("{}: {}", m.plugin, m.why)).collect()
}

async fn update(harness: &Harness, id: &str) {
    let request =
        UpdateContainerRequest { container: Some(container(id)).into(), ..Default::default() };
    let context = RequestContext::default();
    harness.adaptation.update_container(request, &context, async |_| ()).await.unwrap();
}

/// Creates containers of different names, none of which the plugin may miss.
async fn create_all(harness: &Harness, names: std::ops::Range<usize>) {
    for name in names {
        assert_eq!(create(harness, &name.to_string()).await, [""; 0], "{name}");
    }
}

fn status(harness: &Harness) -> PluginStatus {
    harness.adaptation.plugins().remove(0)
}

fn limited(harness: &Harness) -> u64 {
    harness.adaptation.statistics()[0].1.limited
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_gets_slow_is_skipped_until_it_is_fast() {
    let harness = start(vec![policy(BUDGET)]).await;
    let script = Timed::new(FAST);
    let _a = harness.plugin("10-a", &EVENTS, script.clone()).await;
    create_all(&harness, 0..10).await;
    script.set(SLOW);
    // Six of the last ten.
    create_all(&harness, 10..16).await;
    let missed = create(&harness, "16").await;
    let why = "limited by its budget: more than 50% of recent containers took longer than 200ms";
    assert_eq!(missed, [format!("10-a: {why}")]);
    let limit = status(&harness).limit.unwrap();
    assert_eq!((limit.skipped, limited(&harness)), (1, 1));
    let pause = limit.next_try.duration_since(limit.since).unwrap();
    assert!(pause.abs_diff(BUDGET.pause) < Duration::from_secs(5), "{pause:?}");

    // It is still asked for verdicts, gets other events, and no updates.
    let calls = |name: &str| harness.log.of(&format!("10-a {name}")).len();
    assert_eq!((calls("create_container"), calls("validate_container_adjustment")), (16, 17));
    let before = harness.log.all().len();
    update(&harness, "x").await;
    assert_eq!((harness.log.all().len(), limited(&harness)), (before, 2));
    let request =
        StopContainerRequest { container: Some(container("x")).into(), ..Default::default() };
    harness.adaptation.stop_container(request, async |_| ()).await;
    assert_eq!(harness.log.all().len(), before + 1);

    // A try, which is slow, and one that is fast.
    tokio::time::advance(BUDGET.pause).await;
    create_all(&harness, 17..18).await;
    assert_eq!(create(&harness, "18").await.len(), 1);
    script.set(FAST);
    assert_eq!(create(&harness, "19").await.len(), 1);
    tokio::time::advance(BUDGET.pause).await;
    create_all(&harness, 20..30).await;
    assert_eq!((status(&harness).limit, limited(&harness)), (None, 4));
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_created_again_and_again_limits_no_plugin() {
    let harness = start(vec![policy(BUDGET)]).await;
    let _a = harness.plugin("10-a", &EVENTS, Timed::new(SLOW)).await;
    for _ in 0..100 {
        assert_eq!(create(&harness, "crashes").await, [""; 0]);
        update(&harness, "crashes").await;
    }
    assert_eq!((status(&harness).limit, limited(&harness)), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_another_one_are_not_slow() {
    let harness = start(vec![policy(BUDGET)]).await;
    let _a = harness.plugin("10-a", &EVENTS, Timed::new(FAST)).await;
    let ids: Vec<_> = (0..20).map(|n| n.to_string()).collect();
    let creations: Vec<_> = ids.iter().map(|id| harness.spawn_create(id)).collect();
    for creation in creations {
        creation.await.unwrap().unwrap();
    }
    assert_eq!(status(&harness).limit, None);
}

#[tokio::test(start_paused = true)]
async fn without_a_budget_a_slow_plugin_is_called() {
    let harness = start(Vec::new()).await;
    let _a = harness.plugin("10-a", &EVENTS, Timed::new(SLOW)).await;
    create_all(&harness, 0..30).await;
    assert_eq!(harness.adaptation.budget(&status(&harness)), None);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_must_not_be_absent_is_never_skipped() {
    let own = policy(BUDGET);
    let required = PluginPolicy { required: true, ..own.clone() };
    let by_another = PluginPolicy { plugin: "*".into(), required: true, ..PluginPolicy::default() };
    let fail = PluginPolicy { on_failure: OnFailure::Fail, ..own.clone() };
    for (policies, fail_request, exemption) in [
        (vec![required], false, BudgetExemption::Required),
        (vec![own.clone(), by_another], false, BudgetExemption::Required),
        (vec![fail], false, BudgetExemption::OnFailure),
        (vec![own], true, BudgetExemption::FailRequest),
    ] {
        let harness = start(policies).await;
        let script = Timed { fail_request, ..Timed::new(SLOW) };
        let _a = harness.plugin("10-a", &EVENTS, script).await;
        create_all(&harness, 0..30).await;
        update(&harness, "x").await;
        let status = status(&harness);
        assert_eq!((status.limit, limited(&harness)), (None, 0), "{exemption}");
        assert_eq!(harness.adaptation.budget(&status), Some((BUDGET, Some(exemption))));
    }
}

/// The plugin is skipped at first; the new policy requires it.
#[tokio::test(start_paused = true)]
async fn a_reload_ends_the_limit_of_a_plugin_that_it_requires() {
    let harness = start(vec![policy(BUDGET)]).await;
    let _a = harness.plugin("10-a", &EVENTS, Timed::new(SLOW)).await;
    create_all(&harness, 0..5).await;
    assert_eq!(create(&harness, "5").await.len(), 1);
    let policies = vec![PluginPolicy { required: true, ..policy(BUDGET) }];
    let config = AdaptationConfig {
        plugin_path: "/nonexistent/plugins".into(),
        policies,
        ..AdaptationConfig::default()
    };
    harness.adaptation.reload(config).await;
    create_all(&harness, 6..20).await;
}
