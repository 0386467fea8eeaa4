//! Plugins that are observed: they are called as always, and nothing of what they reply has an
//! effect.

use crate::harness::*;
use crate::policy::scope::{Replies, config, create_in, policy};
use async_trait::async_trait;
use nri_adaptation::{
    AdaptationConfig, OnFailure, OutsideScope, Permissions, PluginPolicy, RequestContext,
    WithheldBy,
};
use nri_api::proto::Event::*;
use nri_api::proto::*;
use nri_wire::{RuntimeClient, ttrpc};

fn observed() -> PluginPolicy {
    PluginPolicy { observe: true, scope: None, ..policy(OutsideScope::Hidden) }
}

async fn harness(policy: PluginPolicy) -> Harness {
    Harness::with(config(policy)).await
}

#[tokio::test(start_paused = true)]
async fn other_plugins_do_not_see_the_changes_of_an_observed_plugin() {
    let harness = harness(observed()).await;
    let events = [CREATE_CONTAINER];
    let update = vec![shares("x", 5)];
    let replies = Replies { update, ..Replies::default() };
    let _a = harness.plugin("10-a", &events, replies).await;
    // It would be a conflict.
    let _b = harness.plugin("20-b", &events, Replies::default()).await;
    let (outcome, mut withheld) = create_in(&harness, "p", "c").await;
    let outcome = outcome.unwrap();
    assert_eq!((outcome.adjust.annotations.len(), outcome.updates.len()), (1, 0));
    assert_eq!(outcome.consulted.len(), 2);
    let owners = &outcome.owners.owners["c"];
    assert!(format!("{owners:?}").contains("20-b") && !format!("{owners:?}").contains("10-a"));
    let reply = withheld.remove(0);
    assert_eq!((reply.plugin.to_string().as_str(), reply.by), ("10-a", WithheldBy::Observe));
    let would_be = reply.would_be.unwrap();
    assert_eq!((would_be.adjust.annotations.len(), would_be.updates), (1, vec![shares("x", 5)]));
    assert!(withheld.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_observed_plugin_refuses_nothing() {
    let events = [CREATE_CONTAINER, VALIDATE_CONTAINER_ADJUSTMENT, START_CONTAINER];
    let refusals = async |policy: PluginPolicy, replies: Replies| {
        let harness = harness(policy).await;
        let _b = harness.plugin("05-b", &events[..1], Replies::default()).await;
        let _a = harness.plugin("10-a", &events, replies).await;
        let (outcome, withheld) = create_in(&harness, "p", "c").await;
        assert_eq!(outcome.unwrap().adjust.annotations.len(), 1);
        let container = Some(container("c")).into();
        let start = StartContainerRequest { container, ..Default::default() };
        let context = RequestContext::default();
        harness.adaptation.start_container(start, &context, async || ()).await.unwrap();
        let replies = withheld.into_iter();
        replies.map(|reply| reply.would_be.unwrap_err().to_string()).collect::<Vec<_>>()
    };
    // A conflict, and a group that is denied.
    let conflict = refusals(observed(), Replies::default()).await;
    assert!(conflict.len() == 1 && conflict[0].contains("05-b"), "{conflict:?}");
    let permissions = Permissions::new(None::<[&str; 0]>, ["annotations"]).unwrap();
    let denied = refusals(PluginPolicy { permissions, ..observed() }, Replies::default()).await;
    assert!(denied.len() == 1 && denied[0].contains("denies annotations"), "{denied:?}");
    let refused = refusals(observed(), Replies { refuses: true, ..Replies::default() }).await;
    assert!(refused.len() == 2 && refused[1].contains("invalid"), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn containers_neither_fail_nor_miss_an_observed_plugin_that_is_required() {
    let policy = PluginPolicy {
        required: true,
        on_failure: OnFailure::Fail,
        consecutive_timeouts: Some(0),
        ..observed()
    };
    let harness = harness(policy).await;
    create_in(&harness, "p", "c").await.0.unwrap();
    assert!(harness.adaptation.missing_required().is_empty());
    let _a = harness.plugin("10-a", &[CREATE_CONTAINER], Hangs).await;
    let request =
        CreateContainerRequest { container: Some(container("d")).into(), ..Default::default() };
    let context = RequestContext::default();
    let create =
        harness.adaptation.create_container(request, &context, async |_| (), async |()| ());
    create.await.unwrap();
    assert!(context.missed().is_empty());
    assert_eq!(context.take_withheld().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn updates_and_evictions_of_an_observed_plugin_are_not_performed() {
    let harness = harness(observed()).await;
    harness.manager.state.lock().unwrap().containers.push(container("x"));
    let update = vec![shares("x", 5)];
    let evict = vec![ContainerEviction { container_id: "x".into(), ..Default::default() }];
    let replies = Replies { update: update.clone(), evict: evict.clone(), ..Replies::default() };
    let peer = harness.plugin("10-a", &[UPDATE_CONTAINER, STOP_CONTAINER], replies).await;
    let request = UpdateContainersRequest { update, evict, ..Default::default() };
    let reply = peer.end.runtime().update_containers(None, &request).await.unwrap();
    assert_eq!(reply.failed, [shares("x", 5)]);
    let about = || Some(container("x")).into();
    let request = UpdateContainerRequest { container: about(), ..Default::default() };
    let context = RequestContext::default();
    let commit = async |outcome: nri_adaptation::UpdateOutcome| outcome;
    let outcome = harness.adaptation.update_container(request, &context, commit).await.unwrap();
    assert!(!outcome.touched && outcome.updates.is_empty() && outcome.evictions.is_empty());
    let request = StopContainerRequest { container: about(), ..Default::default() };
    let outcome = harness.adaptation.stop_container(request, async |outcome| outcome).await;
    assert!(outcome.updates.updates.is_empty() && outcome.failures.is_empty());
    assert_eq!(harness.log.of("manager"), ["snapshot", "10-a Active"]);
    let (both, update) = ("10-a Observe: update x, evict x", "10-a Observe: update x");
    assert_eq!(harness.log.of("withheld"), [both, both, update]);
}

struct UpdatesAtSynchronization;

#[async_trait]
impl Script for UpdatesAtSynchronization {
    async fn synchronize(
        &self,
        _: &RuntimeClient,
        _: SynchronizeRequest,
    ) -> ttrpc::Result<SynchronizeResponse> {
        Ok(SynchronizeResponse { update: vec![shares("x", 5)], ..Default::default() })
    }
}

#[tokio::test(start_paused = true)]
async fn an_observed_plugin_stays_connected_and_a_reload_lets_it_change_containers() {
    let harness = harness(observed()).await;
    let _a = harness.plugin("10-a", &[], UpdatesAtSynchronization).await;
    let _a2 = harness.plugin("11-a", &[CREATE_CONTAINER], Replies::default()).await;
    assert_eq!(harness.active_plugins(), ["10-a", "11-a"]);
    assert!(!harness.log.all().contains(&"manager update x by 10-a".to_owned()));
    let all = PluginPolicy { plugin: "*".into(), ..observed() };
    harness.adaptation.reload(config(all)).await;
    assert!(create_in(&harness, "p", "c").await.0.unwrap().adjust.annotations.is_empty());
    let plugin_path = "/nonexistent/plugins".into();
    let none = AdaptationConfig { plugin_path, ..AdaptationConfig::default() };
    harness.adaptation.reload(none).await;
    assert_eq!(create_in(&harness, "p", "d").await.0.unwrap().adjust.annotations.len(), 1);
}
