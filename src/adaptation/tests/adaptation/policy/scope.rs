//! Scope of policies: what plugins see, change and refuse of containers that they are not for.

use crate::harness::*;
use async_trait::async_trait;
use nri_adaptation::{
    AdaptationConfig, CreateOutcome, DefaultValidatorConfig, Origin, OutsideScope, Pattern,
    PluginPolicy, RequestContext, Scope, WithheldBy, WithheldReply,
};
use nri_api::proto::Event::*;
use nri_api::proto::*;
use nri_wire::ttrpc::{self, Code};
use nri_wire::{RuntimeClient, status};

/// Policy of `10-a` for containers of the namespace `in`.
pub(crate) fn policy(outside: OutsideScope) -> PluginPolicy {
    let namespaces = Some(vec![Pattern::new("in")]);
    let scope = Some(Scope { namespaces, outside, ..Scope::default() });
    PluginPolicy { plugin: "10-a".into(), scope, ..PluginPolicy::default() }
}

pub(crate) fn config(policy: PluginPolicy) -> AdaptationConfig {
    let plugin_path = "/nonexistent/plugins".into();
    AdaptationConfig { plugin_path, policies: vec![policy], ..AdaptationConfig::default() }
}

/// Returns a pod of this namespace, with the namespace as its id.
fn pod_in(namespace: &str) -> PodSandbox {
    PodSandbox { namespace: namespace.into(), ..pod(namespace) }
}

fn container_in(namespace: &str, id: &str) -> Container {
    Container { pod_sandbox_id: namespace.into(), ..container(id) }
}

type Created = (Result<CreateOutcome, String>, Vec<WithheldReply>);

/// Creates a container. Also returns the replies without effect.
pub(crate) async fn create_in(harness: &Harness, namespace: &str, id: &str) -> Created {
    let request = CreateContainerRequest {
        pod: Some(pod_in(namespace)).into(),
        container: Some(container_in(namespace, id)).into(),
        ..Default::default()
    };
    let context = RequestContext::default();
    let (prepare, commit) = (async |outcome| outcome, async |outcome| outcome);
    let created = harness.adaptation.create_container(request, &context, prepare, commit).await;
    (created.map_err(|e| e.to_string()), context.take_withheld())
}

/// Makes the manager have a container in each of the namespaces `in` and `out`.
fn add_containers(harness: &Harness) {
    let mut state = harness.manager.state.lock().unwrap();
    for (namespace, id) in [("in", "x-in"), ("out", "x-out")] {
        state.pods.push(pod_in(namespace));
        state.containers.push(container_in(namespace, id));
    }
}

/// Replies to a creation and a stop with an annotation and these updates and evictions, and refuses
/// validations.
#[derive(Default)]
pub(crate) struct Replies {
    pub(crate) refuses: bool,
    pub(crate) update: Vec<ContainerUpdate>,
    pub(crate) evict: Vec<ContainerEviction>,
}

#[async_trait]
impl Script for Replies {
    async fn create(
        &self,
        _: &RuntimeClient,
        _: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        if self.refuses {
            return Err(status(Code::INVALID_ARGUMENT, "no"));
        }
        let (update, evict) = (self.update.clone(), self.evict.clone());
        Ok(CreateContainerResponse { update, evict, ..annotate("a", "1") })
    }
    async fn update(&self, _: UpdateContainerRequest) -> ttrpc::Result<UpdateContainerResponse> {
        let (update, evict) = (self.update.clone(), self.evict.clone());
        Ok(UpdateContainerResponse { update, evict, ..Default::default() })
    }
    async fn stop(&self, _: StopContainerRequest) -> ttrpc::Result<StopContainerResponse> {
        Ok(StopContainerResponse { update: self.update.clone(), ..Default::default() })
    }
    async fn validate(
        &self,
        _: ValidateContainerAdjustmentRequest,
    ) -> ttrpc::Result<ValidateContainerAdjustmentResponse> {
        let (reject, reason) = (self.refuses, "invalid".into());
        Ok(ValidateContainerAdjustmentResponse { reject, reason, ..Default::default() })
    }
    async fn event(&self, _: Event, _: &str) -> ttrpc::Result<()> {
        if self.refuses { Err(status(Code::INVALID_ARGUMENT, "no")) } else { Ok(()) }
    }
}

fn eviction(id: &str) -> ContainerEviction {
    ContainerEviction { container_id: id.into(), ..Default::default() }
}

async fn life(harness: &Harness, namespace: &str, id: &str) {
    let (pod, container) =
        (Some(pod_in(namespace)).into(), Some(container_in(namespace, id)).into());
    let run = RunPodSandboxRequest { pod, ..Default::default() };
    let context = RequestContext::default();
    harness.adaptation.run_pod_sandbox(run.clone(), &context, async || ()).await.unwrap();
    create_in(harness, namespace, id).await.0.unwrap();
    let start = StartContainerRequest { pod: run.pod.clone(), container, ..Default::default() };
    harness.adaptation.start_container(start.clone(), &context, async || ()).await.unwrap();
    let (pod, container) = (start.pod, start.container);
    let started = PostStartContainerRequest { pod, container, ..Default::default() };
    harness.adaptation.post_start_container(started.clone()).await;
    let (pod, container) = (started.pod, started.container);
    let stop = StopContainerRequest { pod, container, ..Default::default() };
    harness.adaptation.stop_container(stop.clone(), async |_| ()).await;
    let remove = RemovePodSandboxRequest { pod: stop.pod, ..Default::default() };
    harness.adaptation.remove_pod_sandbox(remove, async || ()).await;
}

const EVENTS: [Event; 7] = [
    RUN_POD_SANDBOX,
    CREATE_CONTAINER,
    START_CONTAINER,
    POST_START_CONTAINER,
    STOP_CONTAINER,
    REMOVE_POD_SANDBOX,
    VALIDATE_CONTAINER_ADJUSTMENT,
];

#[tokio::test(start_paused = true)]
async fn a_plugin_gets_no_event_of_a_hidden_container_and_is_not_synchronized_with_it() {
    let harness = Harness::with(config(policy(OutsideScope::Hidden))).await;
    add_containers(&harness);
    let refuses = Replies { refuses: true, ..Replies::default() };
    let _a = harness.plugin("10-a", &EVENTS, refuses).await;
    life(&harness, "out", "c").await;
    assert_eq!(harness.log.of("10-a"), ["synchronize x-in"]);
    let (refused, withheld) = create_in(&harness, "in", "d").await;
    assert!(refused.unwrap_err().contains("10-a refused") && withheld.is_empty());
    assert_eq!(harness.log.of("10-a").last().unwrap(), "create_container d");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_may_only_read_sees_a_container_and_neither_changes_nor_refuses_it() {
    let harness = Harness::with(config(policy(OutsideScope::ReadOnly))).await;
    add_containers(&harness);
    let a = harness.plugin("10-a", &EVENTS, Replies::default()).await;
    assert_eq!(harness.log.of("10-a"), ["synchronize x-in,x-out"]);
    let (outcome, mut withheld) = create_in(&harness, "out", "c").await;
    assert_eq!(outcome.unwrap().adjust, ContainerAdjustment::default());
    let WithheldReply { plugin, by, would_be } = withheld.remove(0);
    assert_eq!((plugin.to_string().as_str(), by), ("10-a", WithheldBy::Scope));
    assert_eq!(would_be.unwrap().adjust.annotations["a"], "1");
    let (outcome, withheld) = create_in(&harness, "in", "d").await;
    assert_eq!(outcome.unwrap().adjust.annotations["a"], "1");
    assert!(withheld.is_empty());
    a.end.close();
    harness.log.wait("manager 10-a Closed").await;
    let refuses = Replies { refuses: true, ..Replies::default() };
    let _a = harness.plugin("10-a", &EVENTS, refuses).await;
    life(&harness, "out", "e").await;
    let (_, withheld) = create_in(&harness, "out", "f").await;
    let refusals: Vec<_> =
        withheld.into_iter().map(|reply| reply.would_be.unwrap_err().to_string()).collect();
    assert_eq!(refusals.len(), 2, "{refusals:?}");
    assert!(refusals[0].contains("10-a refused CREATE_CONTAINER of f"), "{refusals:?}");
    assert!(refusals[1].contains("invalid"), "{refusals:?}");
}

#[tokio::test(start_paused = true)]
async fn updates_and_evictions_outside_the_scope_fail_as_of_unknown_containers() {
    for outside in [OutsideScope::Hidden, OutsideScope::ReadOnly] {
        let harness = Harness::with(config(policy(outside))).await;
        add_containers(&harness);
        let peer = harness.plugin("10-a", &[], Quiet).await;
        let ids = ["x-in", "x-out", "x-unknown"];
        let request = UpdateContainersRequest {
            update: ids.map(|id| shares(id, 5)).into(),
            evict: ids.map(eviction).into(),
            ..Default::default()
        };
        let reply = peer.end.runtime().update_containers(None, &request).await.unwrap();
        let failed: Vec<_> = reply.failed.iter().map(|update| &*update.container_id).collect();
        assert_eq!(failed, ["x-out", "x-unknown"]);
        let performed = ["snapshot", "10-a Active", "update x-in by 10-a", "evict x-in by 10-a"];
        assert_eq!(harness.log.of("manager"), performed);
        let withheld = ["10-a Scope: update x-out, update x-unknown, evict x-out, evict x-unknown"];
        assert_eq!(harness.log.of("withheld"), withheld);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_about_a_container_of_the_scope_may_depend_on_an_update_outside() {
    let why = "CREATE_CONTAINER: plugin 10-a may not update other containers (x-out): it is \
               outside the scope of the policy \"10-a\"";
    for (ignore_failure, namespace, expected) in [
        (false, "in", Err(why.to_owned())),
        (true, "in", Ok(vec!["x-in".to_owned()])),
        (false, "out", Ok(vec!["x-in".to_owned()])),
    ] {
        let harness = Harness::with(config(policy(OutsideScope::ReadOnly))).await;
        add_containers(&harness);
        let outside = ContainerUpdate { ignore_failure, ..shares("x-out", 5) };
        let (update, evict) = (vec![shares("x-in", 5), outside], vec![eviction("x-out")]);
        let replies = Replies { update, evict, ..Replies::default() };
        let _a = harness.plugin("10-a", &[CREATE_CONTAINER], replies).await;
        let (outcome, _) = create_in(&harness, namespace, "c").await;
        let updated = outcome.map(|outcome| {
            assert!(outcome.evictions.is_empty());
            outcome.updates.into_iter().map(|update| update.container_id).collect()
        });
        assert_eq!(updated, expected, "{ignore_failure} {namespace}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_own_update_of_a_container_outside_the_scope_has_no_effect() {
    let harness = Harness::with(config(policy(OutsideScope::ReadOnly))).await;
    add_containers(&harness);
    let update = vec![shares("x-out", 5), shares("x-in", 6)];
    let replies = Replies { update, ..Replies::default() };
    let _a = harness.plugin("10-a", &[UPDATE_CONTAINER, STOP_CONTAINER], replies).await;
    let (pod, container) = (Some(pod_in("out")).into(), Some(container_in("out", "x-out")).into());
    let request = UpdateContainerRequest { pod, container, ..Default::default() };
    let (pod, container) = (request.pod.clone(), request.container.clone());
    let context = RequestContext::default();
    let commit = async |outcome: nri_adaptation::UpdateOutcome| outcome;
    let outcome = harness.adaptation.update_container(request, &context, commit).await.unwrap();
    assert_eq!((outcome.updates, outcome.touched), (vec![shares("x-in", 6)], false));
    let request = StopContainerRequest { pod, container, ..Default::default() };
    let outcome = harness.adaptation.stop_container(request, async |outcome| outcome).await;
    assert_eq!(outcome.updates.updates, [shares("x-in", 6)]);
    assert!(outcome.failures.is_empty());
    assert_eq!(harness.log.of("withheld"), ["10-a Scope: update x-out"; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_is_required_only_for_containers_of_its_scope() {
    for outside in [OutsideScope::Hidden, OutsideScope::ReadOnly] {
        let required = PluginPolicy { required: true, ..policy(outside) };
        let harness = Harness::with(config(required)).await;
        create_in(&harness, "out", "c").await.0.unwrap();
        let refused = create_in(&harness, "in", "d").await.0.unwrap_err();
        assert!(refused.contains("10-a"), "{refused}");
        let rules = DefaultValidatorConfig {
            required_plugins: vec!["10-a".into(), "20-b".into()],
            ..DefaultValidatorConfig::default()
        };
        let default_validator = Some(rules);
        let config = AdaptationConfig { default_validator, ..config(policy(outside)) };
        let harness = Harness::with(config).await;
        let _b = harness.plugin("20-b", &[], Quiet).await;
        create_in(&harness, "out", "c").await.0.unwrap();
        let refused = create_in(&harness, "in", "d").await.0.unwrap_err();
        assert!(refused.contains("10-a") && !refused.contains("20-b"), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reload_takes_the_changes_of_a_scope() {
    let harness = Harness::with(config(policy(OutsideScope::Hidden))).await;
    let _a = harness.plugin("10-a", &[CREATE_CONTAINER], Replies::default()).await;
    let is_adjusted = async |id: &str| {
        !create_in(&harness, "out", id).await.0.unwrap().adjust.annotations.is_empty()
    };
    assert!(!is_adjusted("c").await);
    let everywhere = PluginPolicy { scope: None, ..policy(OutsideScope::Hidden) };
    harness.adaptation.reload(config(everywhere)).await;
    assert!(is_adjusted("d").await);
    harness.adaptation.reload(config(policy(OutsideScope::Hidden))).await;
    assert!(!is_adjusted("e").await);
}

/// The manager knows the origin only of what exists.
#[tokio::test(start_paused = true)]
async fn a_scope_of_engines_compares_the_origin_of_the_request_or_of_the_manager() {
    let engines = Some(vec![Pattern::new("docker")]);
    let scope = Some(Scope { engines, ..Scope::default() });
    let policy = PluginPolicy { scope, ..policy(OutsideScope::Hidden) };
    let harness = Harness::with(config(policy)).await;
    let origin = |engine: &str| Origin { engine: engine.into(), runtime: "runc".into() };
    for (id, engine) in [("x-docker", "docker"), ("x-podman", "podman")] {
        harness.manager.origins.lock().unwrap().insert(id.into(), origin(engine));
        harness.manager.state.lock().unwrap().containers.push(container(id));
    }
    let events = [CREATE_CONTAINER, REMOVE_CONTAINER];
    let _a = harness.plugin("10-a", &events, Replies::default()).await;
    for (id, engine) in [("c", "podman"), ("d", "docker")] {
        let request =
            CreateContainerRequest { container: Some(container(id)).into(), ..Default::default() };
        let context = RequestContext::default().with_origin(origin(engine));
        let create =
            harness.adaptation.create_container(request, &context, async |_| (), async |()| ());
        create.await.unwrap();
    }
    for id in ["x-podman", "x-docker"] {
        let container = Some(container(id)).into();
        let request = RemoveContainerRequest { container, ..Default::default() };
        harness.adaptation.remove_container(request, async || ()).await;
    }
    let expected = ["synchronize x-docker", "create_container d", "remove_container x-docker"];
    assert_eq!(harness.log.of("10-a"), expected);
}
