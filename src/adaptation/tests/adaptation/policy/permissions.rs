//! Permissions of plugins: denied changes are refused in every reply and request.

use crate::harness::*;
use async_trait::async_trait;
use nri_adaptation::{AdaptationConfig, Fault, Permissions, PluginPolicy, RequestContext};
use nri_api::proto::Event::*;
use nri_api::proto::*;
use nri_wire::{RuntimeClient, ttrpc};

/// Requests the same changes in every reply.
struct Requests {
    adjust: ContainerAdjustment,
    update: Vec<ContainerUpdate>,
    evict: Vec<ContainerEviction>,
    at_synchronize: bool,
}

impl Requests {
    fn nothing() -> Self {
        Self {
            adjust: ContainerAdjustment::new(),
            update: vec![],
            evict: vec![],
            at_synchronize: false,
        }
    }
}

#[async_trait]
impl Script for Requests {
    async fn synchronize(
        &self,
        _: &RuntimeClient,
        _: SynchronizeRequest,
    ) -> ttrpc::Result<SynchronizeResponse> {
        let update = if self.at_synchronize { self.update.clone() } else { vec![] };
        Ok(SynchronizeResponse { update, ..Default::default() })
    }
    async fn create(
        &self,
        _: &RuntimeClient,
        _: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        Ok(CreateContainerResponse {
            adjust: Some(self.adjust.clone()).into(),
            update: self.update.clone(),
            evict: self.evict.clone(),
            ..Default::default()
        })
    }
    async fn update(&self, _: UpdateContainerRequest) -> ttrpc::Result<UpdateContainerResponse> {
        let (update, evict) = (self.update.clone(), self.evict.clone());
        Ok(UpdateContainerResponse { update, evict, ..Default::default() })
    }
    async fn stop(&self, _: StopContainerRequest) -> ttrpc::Result<StopContainerResponse> {
        Ok(StopContainerResponse { update: self.update.clone(), ..Default::default() })
    }
}

async fn harness(allow: Option<&[&str]>, deny: &[&str]) -> Harness {
    let permissions =
        Permissions::new(allow.map(|a| a.iter().copied()), deny.iter().copied()).unwrap();
    let policy = PluginPolicy { plugin: "a".into(), permissions, ..PluginPolicy::default() };
    Harness::with(AdaptationConfig { policies: vec![policy], ..AdaptationConfig::default() }).await
}

fn hooks() -> ContainerAdjustment {
    let mut adjust = ContainerAdjustment::new();
    adjust
        .hooks
        .mut_or_insert_default()
        .prestart
        .push(Hook { path: "/h".into(), ..Default::default() });
    adjust
}

/// Blocks the configuration of the plugin until the gate opens. Adjusts hooks.
struct Late(Log, std::sync::Arc<Gate>);

#[async_trait]
impl Script for Late {
    async fn configure(&self, _: ConfigureRequest) -> Option<ttrpc::Result<ConfigureResponse>> {
        self.0.add("configure received");
        self.1.pass().await;
        None
    }
    async fn create(
        &self,
        _: &RuntimeClient,
        _: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        Ok(CreateContainerResponse { adjust: Some(hooks()).into(), ..Default::default() })
    }
}

#[tokio::test]
async fn a_reload_applies_to_a_plugin_that_is_registering() {
    let harness = Harness::new().await;
    let gate = Gate::new();
    let (peer, connecting) = harness
        .connect_unregistered("10-a", &[CREATE_CONTAINER], Late(harness.log.clone(), gate.clone()))
        .await;
    peer.register().await.unwrap();
    harness.log.wait("configure received").await;
    let permissions = Permissions::new(None::<[&str; 0]>, ["hooks"]).unwrap();
    let policy = PluginPolicy { plugin: "a".into(), permissions, ..PluginPolicy::default() };
    let config = AdaptationConfig {
        plugin_path: "/nonexistent/plugins".into(),
        policies: vec![policy],
        ..AdaptationConfig::default()
    };
    harness.adaptation.reload(config).await;
    gate.open();
    connecting.await.unwrap().unwrap();
    let refused = harness.create("c").await.unwrap_err();
    assert!(refused.contains("the policy \"a\" denies hooks"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_denied_adjustment_fails_its_creation_and_no_other() {
    let harness = harness(None, &["hooks"]).await;
    let requests = || Requests { adjust: hooks(), ..Requests::nothing() };
    let other = harness.plugin("05-other", &[CREATE_CONTAINER], requests()).await;
    harness.create("c0").await.unwrap();
    let _a = harness.plugin("10-a", &[CREATE_CONTAINER], requests()).await;
    let error = harness.create("c").await.unwrap_err();
    let why = "plugin 10-a may not adjust hooks of c: the policy \"a\" denies hooks";
    assert_eq!(error, format!("CREATE_CONTAINER: {why}"));
    assert_eq!(harness.log.of("commit"), ["begin c0", "end c0"]);
    assert_eq!(harness.active_plugins(), ["05-other", "10-a"], "the plugin was disconnected");
    drop(other);
    let request =
        CreateContainerRequest { container: Some(container("d")).into(), ..Default::default() };
    let error = harness
        .adaptation
        .create_container(request, &RequestContext::default(), async |_| (), async |()| ())
        .await
        .unwrap_err();
    assert_eq!(error.fault(), Fault::Plugin);
    assert_eq!(error.plugin().unwrap().to_string(), "10-a");
}

#[tokio::test(start_paused = true)]
async fn an_allow_list_denies_all_other_groups() {
    let harness = harness(Some(&["annotations"]), &[]).await;
    let adjust = annotate("k", "v").adjust.unwrap();
    let _a = harness
        .plugin("10-a", &[CREATE_CONTAINER], Requests { adjust, ..Requests::nothing() })
        .await;
    assert_eq!(harness.create("c").await.unwrap().adjust.annotations["k"], "v");
    let _b = harness
        .plugin("11-a", &[CREATE_CONTAINER], Requests { adjust: hooks(), ..Requests::nothing() })
        .await;
    let error = harness.create("d").await.unwrap_err();
    let why = "plugin 11-a may not adjust hooks of d: the policy \"a\" does not allow hooks";
    assert_eq!(error, format!("CREATE_CONTAINER: {why}"));
}

async fn update(harness: &Harness) -> Result<(), String> {
    let request =
        UpdateContainerRequest { container: Some(container("c")).into(), ..Default::default() };
    harness
        .adaptation
        .update_container(request, &RequestContext::default(), async |_| ())
        .await
        .map_err(|e| e.to_string())
}

#[tokio::test(start_paused = true)]
async fn updates_need_the_groups_of_their_fields_and_for_other_containers_the_group_update() {
    for (id, allow, deny, expected) in [
        (
            "c",
            None,
            &["resources.cpu"][..],
            Some("update cpu.shares of c: the policy \"a\" denies resources.cpu"),
        ),
        ("c", None, &["update"], None),
        ("c", Some(&["resources"][..]), &[], None),
        (
            "c",
            Some(&["mounts"]),
            &[],
            Some("update cpu.shares of c: the policy \"a\" does not allow resources.cpu"),
        ),
        (
            "x",
            None,
            &["update"],
            Some("update other containers (x): the policy \"a\" denies update"),
        ),
        (
            "x",
            Some(&["resources.cpu"]),
            &[],
            Some("update other containers (x): the policy \"a\" does not allow update"),
        ),
        ("x", Some(&["resources.cpu", "update"]), &[], None),
    ] {
        let harness = harness(allow, deny).await;
        let requests = Requests { update: vec![shares(id, 5)], ..Requests::nothing() };
        let _a = harness.plugin("10-a", &[UPDATE_CONTAINER], requests).await;
        let expected =
            expected.map_or(Ok(()), |e| Err(format!("UPDATE_CONTAINER: plugin 10-a may not {e}")));
        assert_eq!(update(&harness).await, expected, "{id} {allow:?} {deny:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn evictions_need_the_group_evict() {
    let harness = harness(None, &["evict"]).await;
    let evict = vec![ContainerEviction { container_id: "x".into(), ..Default::default() }];
    let events = [CREATE_CONTAINER, UPDATE_CONTAINER];
    let _a = harness.plugin("10-a", &events, Requests { evict, ..Requests::nothing() }).await;
    let why = "plugin 10-a may not evict containers (x): the policy \"a\" denies evict";
    assert_eq!(update(&harness).await, Err(format!("UPDATE_CONTAINER: {why}")));
    assert_eq!(harness.create("c").await.unwrap_err(), format!("CREATE_CONTAINER: {why}"));
}

#[tokio::test(start_paused = true)]
async fn a_stop_succeeds_without_the_updates_that_are_denied() {
    let harness = harness(None, &["update"]).await;
    let requests = |id: &str| Requests { update: vec![shares(id, 5)], ..Requests::nothing() };
    let _a = harness.plugin("10-a", &[STOP_CONTAINER], requests("x")).await;
    let _b = harness.plugin("20-b", &[STOP_CONTAINER], requests("y")).await;
    let request =
        StopContainerRequest { container: Some(container("c")).into(), ..Default::default() };
    let outcome = harness.adaptation.stop_container(request, async |outcome| outcome).await;
    assert_eq!(outcome.updates.updates, [shares("y", 5)]);
    let failures: Vec<_> = outcome.failures.iter().map(ToString::to_string).collect();
    let why = "plugin 10-a may not update other containers (x): the policy \"a\" denies update";
    assert_eq!(failures, [format!("STOP_CONTAINER: {why}")]);
}

#[tokio::test(start_paused = true)]
async fn an_unsolicited_request_is_refused_as_a_whole_with_the_reason() {
    let harness = harness(None, &["resources.cpu", "evict"]).await;
    let peer = harness.plugin("10-a", &[], Quiet).await;
    let request_updates = async |request: UpdateContainersRequest| {
        peer.end
            .runtime()
            .update_containers(None, &request)
            .await
            .map(|_| ())
            .map_err(|e| e.to_string())
    };
    let pids = |id: &str| {
        let mut update = ContainerUpdate { container_id: id.into(), ..Default::default() };
        update.linux.mut_or_insert_default().resources.mut_or_insert_default().pids =
            Some(LinuxPids { limit: 7, ..Default::default() }).into();
        update
    };
    let update = vec![pids("x"), shares("y", 5)];
    let why = "plugin 10-a may not update cpu.shares of y: \
               the policy \"a\" denies resources.cpu";
    let refused = request_updates(UpdateContainersRequest { update, ..Default::default() }).await;
    assert_eq!(refused, Err(why.into()));
    let evict = vec![ContainerEviction { container_id: "z".into(), ..Default::default() }];
    let why = "plugin 10-a may not evict containers (z): the policy \"a\" denies evict";
    assert_eq!(
        request_updates(UpdateContainersRequest { evict, ..Default::default() }).await,
        Err(why.into())
    );
    let many = vec![ContainerUpdate::new(); 20_000];
    let why = "20000 updates and evictions in one request exceed the limit of 16384";
    assert_eq!(
        request_updates(UpdateContainersRequest { update: many, ..Default::default() }).await,
        Err(why.into())
    );
    assert_eq!(
        harness.log.of("manager"),
        ["snapshot", "10-a Active"],
        "a refused update was performed"
    );
    request_updates(UpdateContainersRequest { update: vec![pids("x")], ..Default::default() })
        .await
        .unwrap();
    assert_eq!(harness.log.of("manager").last().unwrap(), "update x by 10-a");
}

#[tokio::test(start_paused = true)]
async fn denied_updates_in_the_reply_to_synchronize_close_the_session() {
    let harness = harness(None, &["update"]).await;
    let requests =
        Requests { update: vec![shares("x", 5)], at_synchronize: true, ..Requests::nothing() };
    let (peer, connecting) = harness.connect_unregistered("10-a", &[], requests).await;
    peer.register().await.unwrap();
    let error = connecting.await.unwrap().unwrap_err().to_string();
    let why = "plugin 10-a may not update other containers (x): the policy \"a\" denies update";
    assert_eq!(error, format!("updates in the reply to Synchronize are not permitted: {why}"));
    harness.log.wait("manager 10-a Closed").await;
    assert_eq!(harness.adaptation.plugins()[0].last_error, Some(error));
}
