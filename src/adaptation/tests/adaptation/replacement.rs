//! Sessions with the index and name of another one, which they replace.

use crate::harness::*;
use async_trait::async_trait;
use nri_adaptation::{PluginState, PluginStatus, RequestContext, SessionError};
use nri_api::PluginId;
use nri_api::proto::Event::*;
use nri_api::proto::*;
use nri_wire::{RuntimeClient, status, ttrpc};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// A version of a plugin. Its creations set an annotation to the name of the version.
#[derive(Default)]
pub(crate) struct Version {
    pub(crate) name: &'static str,
    /// Holds the synchronization.
    pub(crate) synchronize: Option<Arc<Gate>>,
    /// Holds creations.
    pub(crate) create: Option<Arc<Gate>>,
    /// Holds validations.
    pub(crate) validate: Option<Arc<Gate>>,
    /// Fails the synchronization.
    pub(crate) fails: bool,
}

#[async_trait]
impl Script for Version {
    async fn synchronize(
        &self,
        _: &RuntimeClient,
        _: SynchronizeRequest,
    ) -> ttrpc::Result<SynchronizeResponse> {
        if let Some(gate) = &self.synchronize {
            gate.pass().await;
        }
        if self.fails { Err(status(ttrpc::Code::UNKNOWN, "no")) } else { Ok(Default::default()) }
    }

    async fn create(
        &self,
        _: &RuntimeClient,
        _: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        if let Some(gate) = &self.create {
            gate.pass().await;
        }
        Ok(annotate("version", self.name))
    }

    async fn validate(
        &self,
        _: ValidateContainerAdjustmentRequest,
    ) -> ttrpc::Result<ValidateContainerAdjustmentResponse> {
        if let Some(gate) = &self.validate {
            gate.pass().await;
        }
        Ok(ValidateContainerAdjustmentResponse::new())
    }
}

pub(crate) fn version(name: &'static str) -> Version {
    Version { name, ..Version::default() }
}

pub(crate) type Connecting = JoinHandle<Result<PluginId, SessionError>>;

impl Harness {
    /// Connects a version of the plugin `10-a`. The log has it under the name of the version.
    pub(crate) async fn version(
        &self,
        pid: u32,
        events: &[Event],
        script: Version,
    ) -> (Peer, Connecting) {
        let (peer, connecting) = self.connect_process(pid, script.name, events, script).await;
        peer.register_as("10", "a").await.unwrap();
        (peer, connecting)
    }

    /// Connects a version of the plugin `10-a` that becomes active.
    pub(crate) async fn active_version(&self, pid: u32, events: &[Event], script: Version) -> Peer {
        let (peer, connecting) = self.version(pid, events, script).await;
        connecting.await.unwrap().unwrap();
        peer
    }

    /// Returns the status of the sessions that are registered or were refused as `10-a`.
    pub(crate) fn sessions(&self) -> Vec<PluginStatus> {
        self.adaptation.plugins()
    }
}

/// Returns the version that has adjusted the container.
pub(crate) async fn adjusted(
    created: JoinHandle<Result<nri_adaptation::CreateOutcome, String>>,
) -> String {
    let outcome = created.await.unwrap().unwrap();
    outcome.adjust.annotations["version"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_creation_is_adjusted_by_one_version_first_the_old_then_the_new_one() {
    for _ in 0..10 {
        let harness = Harness::new().await;
        let old = harness.active_version(1, &[CREATE_CONTAINER], version("old")).await;
        let mut creating = Vec::new();
        let mut newer = None;
        for i in 0..200 {
            creating.push(harness.spawn_create(&format!("c{i}")));
            if i == 70 {
                newer = Some(harness.version(2, &[CREATE_CONTAINER], version("new")).await);
            }
            if i % 20 == 0 {
                tokio::task::yield_now().await;
            }
        }
        let mut versions = Vec::new();
        for created in creating {
            versions.push(adjusted(created).await);
        }
        newer.unwrap().1.await.unwrap().unwrap();
        old.end.closed().await;
        let received = |version: &str| -> BTreeSet<String> {
            harness.log.of(&format!("{version} create_container")).into_iter().collect()
        };
        let (by_old, by_new) = (received("old"), received("new"));
        assert_eq!(by_old.len() + by_new.len(), 200, "{by_old:?} {by_new:?}");
        for (i, version) in versions.iter().enumerate() {
            let by = if version == "old" { &by_old } else { &by_new };
            assert!(by.contains(&format!("c{i}")), "c{i}: {version}");
        }
        // The new version is synchronized with exactly the containers of the old one.
        let synchronized = harness.log.of("new synchronize").remove(0);
        let synchronized = synchronized.split(',').filter(|id| !id.is_empty()).map(str::to_owned);
        assert_eq!(synchronized.collect::<BTreeSet<_>>(), by_old);
        let commits = harness.log.of("commit begin");
        let is_new: Vec<_> = commits.iter().map(|id| by_new.contains(id)).collect();
        assert!(is_new.is_sorted(), "an old version after the new one: {commits:?}");
        let statistics = &harness.adaptation.statistics()[0].1;
        assert_eq!((statistics.latency().count(), statistics.restarts), (200, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_entered_before_reach_the_old_session_and_later_ones_the_new_one() {
    let (harness, create, synchronize) = (Harness::new().await, Gate::new(), Gate::new());
    let script = Version { create: Some(create.clone()), ..version("old") };
    let old = harness.active_version(1, &[CREATE_CONTAINER], script).await;
    let before = harness.spawn_create("before");
    harness.log.wait("old create_container before").await;
    let script = Version { synchronize: Some(synchronize.clone()), ..version("new") };
    let (_new, connecting) =
        harness.version(2, &[CREATE_CONTAINER, POST_START_CONTAINER], script).await;
    let during = harness.spawn_create("during");
    run_until_idle().await;
    let started = PostStartContainerRequest {
        container: Some(container("during")).into(),
        ..Default::default()
    };
    let delivery = harness.adaptation.post_start_container(started);
    run_until_idle().await;
    // The call in flight of the old session ends first.
    assert_eq!(harness.log.of("new"), [""; 0]);
    create.open();
    assert_eq!(adjusted(before).await, "old");
    harness.log.wait("new synchronize before").await;
    run_until_idle().await;
    assert!(!during.is_finished());
    assert_eq!(harness.log.of("old"), ["synchronize ", "create_container before"]);
    synchronize.open();
    connecting.await.unwrap().unwrap();
    assert_eq!(adjusted(during).await, "new");
    delivery.await;
    assert_eq!(
        harness.log.of("new"),
        ["synchronize before", "create_container during", "post_start_container during"]
    );
    // The old session gets Shutdown, then its connection is closed.
    assert!(old.end.closed().await.is_clean());
    assert_eq!(harness.log.of("old"), ["synchronize ", "create_container before", "shutdown "]);
    harness.log.wait("manager 10-a Closed").await;
    assert_eq!(
        harness.log.of("manager"),
        ["snapshot", "10-a Active", "snapshot", "10-a Active", "10-a Closed"]
    );
    assert_eq!(
        harness.log.of("closed 10-a:"),
        ["replaced by a newer session of the plugin (process 2)"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_new_session_continues_the_history_and_the_old_one_has_not_failed() {
    let harness = Harness::new().await;
    let old = harness.active_version(1, &[CREATE_CONTAINER], version("old")).await;
    let _other = harness.plugin("10-b", &[], Quiet).await;
    harness.create("c1").await.unwrap();
    let _new = harness.active_version(2, &[CREATE_CONTAINER], version("new")).await;
    old.end.closed().await;
    run_until_idle().await;
    harness.create("c2").await.unwrap();
    let [session, other] = &harness.sessions()[..] else { panic!("{:?}", harness.sessions()) };
    // It has the place of the old session among the plugins of its index.
    assert_eq!(other.id.as_ref().unwrap().to_string(), "10-b");
    assert_eq!((session.pid, session.state), (Some(2), PluginState::Active));
    assert_eq!((session.last_error.as_deref(), session.failed), (None, false));
    assert_eq!(session.history.restarts, 1);
    let why = "replaced by a newer session of the plugin (process 2)";
    assert_eq!(session.history.last_exit.as_deref(), Some(why));
    let statistics = &harness.adaptation.statistics()[0].1;
    assert_eq!((statistics.latency().count(), statistics.restarts), (2, 1));
    assert_eq!(statistics.events[0].failures.total(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_old_session_goes_on_if_the_new_one_fails_to_synchronize() {
    for fails in [true, false] {
        let (harness, gate) = (Harness::new().await, Gate::new());
        let _old = harness.active_version(1, &[CREATE_CONTAINER], version("old")).await;
        let script = Version { synchronize: Some(gate.clone()), fails, ..version("new") };
        let (_new, connecting) = harness.version(2, &[CREATE_CONTAINER], script).await;
        harness.log.wait("new synchronize ").await;
        let during = harness.spawn_create("during");
        run_until_idle().await;
        // Without a permit to go on, the synchronization times out.
        if fails {
            gate.open();
        }
        let error = connecting.await.unwrap().unwrap_err();
        assert!(matches!(error, SessionError::Synchronize(_)), "{error}");
        assert_eq!(adjusted(during).await, "old");
        assert_eq!(adjusted(harness.spawn_create("after")).await, "old");
        harness.log.wait("manager 10-a Closed").await;
        assert_eq!(harness.log.of("old shutdown"), [""; 0]);
        assert_eq!(harness.log.of("new"), ["synchronize "]);
        assert_eq!(harness.active_plugins(), ["10-a"]);
        let active = harness.sessions().into_iter().find(|s| s.state == PluginState::Active);
        assert_eq!(active.map(|s| (s.pid, s.history.restarts)), Some((Some(1), 0)));
    }
}

#[tokio::test(start_paused = true)]
async fn the_old_session_serves_while_the_new_one_takes_long_to_synchronize() {
    let (harness, gate) = (Harness::new().await, Gate::new());
    let _old = harness.active_version(1, &[CREATE_CONTAINER], version("old")).await;
    let script = Version { synchronize: Some(gate.clone()), ..version("new") };
    let (_new, connecting) = harness.version(2, &[CREATE_CONTAINER], script).await;
    harness.log.wait("new synchronize ").await;
    // Waits for as long as a request may take, then goes to the old session.
    assert_eq!(adjusted(harness.spawn_create("during")).await, "old");
    gate.open();
    harness.log.wait("new synchronize during").await;
    gate.open();
    connecting.await.unwrap().unwrap();
    assert_eq!(adjusted(harness.spawn_create("after")).await, "new");
    assert_eq!(
        harness.log.of("new"),
        ["synchronize ", "synchronize during", "create_container after"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_old_session_goes_on_if_the_new_one_disconnects() {
    let (harness, create) = (Harness::new().await, Gate::new());
    let script = Version { create: Some(create.clone()), ..version("old") };
    let _old = harness.active_version(1, &[CREATE_CONTAINER], script).await;
    let before = harness.spawn_create("before");
    harness.log.wait("old create_container before").await;
    let (new, connecting) = harness.version(2, &[CREATE_CONTAINER], version("new")).await;
    let during = harness.spawn_create("during");
    run_until_idle().await;
    new.end.close();
    harness.log.wait("manager 10-a Closed").await;
    create.open();
    create.open();
    assert_eq!(adjusted(before).await, "old");
    assert_eq!(adjusted(during).await, "old");
    connecting.await.unwrap().unwrap_err();
    assert_eq!(harness.log.of("new"), [""; 0]);
    assert_eq!(harness.active_plugins(), ["10-a"]);
}

#[tokio::test(start_paused = true)]
async fn the_new_session_takes_the_place_of_an_old_one_that_ends_meanwhile() {
    let (harness, gate) = (Harness::new().await, Gate::new());
    let old = harness.active_version(1, &[CREATE_CONTAINER], version("old")).await;
    let script = Version { synchronize: Some(gate.clone()), ..version("new") };
    let (_new, connecting) = harness.version(2, &[CREATE_CONTAINER], script).await;
    harness.log.wait("new synchronize ").await;
    let before_the_end = harness.spawn_create("before the end");
    run_until_idle().await;
    old.end.close();
    harness.log.wait("manager 10-a Closed").await;
    let after_the_end = harness.spawn_create("after the end");
    run_until_idle().await;
    gate.open();
    connecting.await.unwrap().unwrap();
    assert_eq!(adjusted(before_the_end).await, "new");
    assert_eq!(adjusted(after_the_end).await, "new");
    let [session] = &harness.sessions()[..] else { panic!("{:?}", harness.sessions()) };
    assert_eq!((session.pid, session.history.restarts), (Some(2), 1));
    assert_eq!(session.history.last_exit.as_deref(), Some("the plugin closed the connection"));
}

#[tokio::test(start_paused = true)]
async fn an_old_session_that_does_not_reply_delays_the_new_one_by_one_timeout() {
    let (harness, never) = (Harness::new().await, Gate::new());
    let script = Version { create: Some(never), ..version("old") };
    let _old = harness.active_version(1, &[CREATE_CONTAINER], script).await;
    let before = harness.spawn_create("before");
    harness.log.wait("old create_container before").await;
    let start = tokio::time::Instant::now();
    let _new = harness.active_version(2, &[CREATE_CONTAINER], version("new")).await;
    assert_eq!(start.elapsed().as_secs(), 2);
    assert!(before.await.unwrap().unwrap().adjust.annotations.is_empty(), "as without upgrade");
    assert_eq!(adjusted(harness.spawn_create("after")).await, "new");
}

#[tokio::test(start_paused = true)]
async fn a_replaced_session_may_request_no_more_updates() {
    let (harness, slow) = (Harness::new().await, Gate::new());
    let old = harness.active_version(1, &[CREATE_CONTAINER], version("old")).await;
    let script = Version { create: Some(slow.clone()), ..version("slow") };
    let (other, connecting) =
        harness.connect_unregistered("slow", &[CREATE_CONTAINER], script).await;
    other.register_as("20", "slow").await.unwrap();
    connecting.await.unwrap().unwrap();
    let synchronize = Gate::new();
    let script = Version { synchronize: Some(synchronize.clone()), ..version("new") };
    let (_new, connecting) = harness.version(2, &[STOP_CONTAINER], script).await;
    harness.log.wait("new synchronize ").await;
    let update = || UpdateContainersRequest { update: vec![shares("c", 1)], ..Default::default() };
    old.end.runtime().update_containers(None, &update()).await.unwrap();
    // This creation entered before the new session had replaced the old one, which is therefore
    // kept until the creation is committed.
    let during = harness.spawn_create("during");
    run_until_idle().await;
    synchronize.open();
    connecting.await.unwrap().unwrap();
    harness.log.wait("slow create_container during").await;
    run_until_idle().await;
    assert_eq!(harness.log.of("old shutdown"), [""; 0]);
    let error = old.end.runtime().update_containers(None, &update()).await.unwrap_err();
    assert_eq!(error.to_string(), "a newer session of the plugin has replaced this one");
    slow.open();
    during.await.unwrap().unwrap();
    old.end.closed().await;
    assert_eq!(harness.log.of("manager update"), ["c by 10-a"]);
}

#[tokio::test(start_paused = true)]
async fn subscriptions_are_those_of_the_session_that_is_called() {
    let (harness, synchronize, validate) = (Harness::new().await, Gate::new(), Gate::new());
    let script = Version { validate: Some(validate.clone()), ..version("old") };
    let old = harness.active_version(1, &[VALIDATE_CONTAINER_ADJUSTMENT], script).await;
    let before = harness.spawn_create("before");
    harness.log.wait("old validate_container_adjustment before").await;
    // The new version adjusts containers, too.
    let script = Version { synchronize: Some(synchronize.clone()), ..version("new") };
    let both = [CREATE_CONTAINER, VALIDATE_CONTAINER_ADJUSTMENT];
    let (_new, connecting) = harness.version(2, &both, script).await;
    let during = harness.spawn_create("during");
    run_until_idle().await;
    assert_eq!(harness.log.of("new"), [""; 0], "an earlier creation has not been committed");
    validate.open();
    before.await.unwrap().unwrap();
    harness.log.wait("new synchronize before").await;
    synchronize.open();
    connecting.await.unwrap().unwrap();
    assert_eq!(adjusted(during).await, "new");
    old.end.closed().await;
    assert_eq!(
        harness.log.of("old"),
        ["synchronize ", "validate_container_adjustment before", "shutdown "]
    );
    assert_eq!(
        harness.log.of("new"),
        ["synchronize before", "create_container during", "validate_container_adjustment during"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_rollback_reaches_the_session_that_received_the_creation() {
    let (harness, gate) = (Harness::new().await, Gate::new());
    let events = [CREATE_CONTAINER, STOP_CONTAINER];
    let old = harness.active_version(1, &events, version("old")).await;
    let context = RequestContext::default();
    let request = CreateContainerRequest {
        pod: Some(pod("p")).into(),
        container: Some(container("c")).into(),
        ..Default::default()
    };
    let adaptation = &harness.adaptation;
    adaptation.create_container(request, &context, async |_| (), async |()| ()).await.unwrap();
    let script = Version { synchronize: Some(gate.clone()), ..version("new") };
    let (_new, connecting) = harness.version(2, &events, script).await;
    harness.log.wait("new synchronize ").await;
    let rollback = adaptation.roll_back_creation(&context, pod("p"), container("c"), async |_| ());
    let replaced = async {
        run_until_idle().await;
        gate.open();
        connecting.await.unwrap().unwrap();
    };
    tokio::join!(rollback, replaced);
    old.end.closed().await;
    assert_eq!(
        harness.log.of("old"),
        ["synchronize ", "create_container c", "stop_container c", "shutdown "]
    );
    assert_eq!(harness.log.of("new"), ["synchronize "]);
}
