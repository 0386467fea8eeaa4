//! An adaptation, a manager that records, and plugins that do as a test says.

use async_trait::async_trait;
use nri_adaptation::{
    AdaptError, Adaptation, AdaptationConfig, ContainerManager, CreateOutcome, LaunchOutcome,
    PluginState, PluginStatus, RequestContext, SessionError, Snapshot,
};
use nri_api::proto::*;
use nri_api::{EventMask, PluginId};
use nri_wire::ttrpc::{self, Code};
use nri_wire::{Context, Plugin, PluginEnd, RuntimeClient, status};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

/// What happened, in order. Clones are the same log.
#[derive(Clone)]
pub(crate) struct Log(Arc<watch::Sender<Vec<String>>>);

impl Log {
    pub(crate) fn add(&self, entry: impl Into<String>) {
        self.0.send_modify(|log| log.push(entry.into()));
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.borrow().clone()
    }

    /// The entries that begin so, without that beginning.
    pub(crate) fn of(&self, who: &str) -> Vec<String> {
        let start = format!("{who} ");
        self.all().iter().filter_map(|e| e.strip_prefix(&start)).map(str::to_owned).collect()
    }

    pub(crate) async fn wait(&self, entry: &str) {
        self.wait_times(entry, 1).await;
    }

    pub(crate) async fn wait_times(&self, entry: &str, times: usize) {
        let mut log = self.0.subscribe();
        let found = log.wait_for(|log| log.iter().filter(|e| *e == entry).count() >= times);
        if tokio::time::timeout(Duration::from_secs(60), found).await.is_err() {
            panic!("{entry:?} did not happen {times} times, but {:#?}", self.all());
        }
    }
}

/// Holds up handlers until it is opened for them.
pub(crate) struct Gate(Semaphore);

impl Gate {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Semaphore::new(0)))
    }

    pub(crate) fn open(&self) {
        self.0.add_permits(1);
    }

    pub(crate) async fn pass(&self) {
        self.0.acquire().await.unwrap().forget();
    }
}

/// The keeper of containers, and what was done to them.
pub(crate) struct TestManager {
    pub(crate) state: Mutex<Snapshot>,
    log: Log,
}

#[async_trait]
impl ContainerManager for TestManager {
    async fn snapshot(&self) -> Snapshot {
        self.log.add("manager snapshot");
        self.state.lock().unwrap().clone()
    }

    /// Containers whose id begins with "bad" cannot be updated.
    async fn update_containers(
        &self,
        plugin: &PluginId,
        updates: Vec<ContainerUpdate>,
        evictions: Vec<ContainerEviction>,
    ) -> Vec<ContainerUpdate> {
        for update in &updates {
            self.log.add(format!("manager update {} by {plugin}", update.container_id));
        }
        for eviction in &evictions {
            self.log.add(format!("manager evict {} by {plugin}", eviction.container_id));
        }
        updates.into_iter().filter(|u| u.container_id.starts_with("bad")).collect()
    }

    /// Lines that begin with "slow" hold up all others for good, as a log on a dead disk does.
    fn plugin_output(&self, plugin: &PluginId, line: &str) {
        if line.starts_with("slow") {
            std::thread::park_timeout(Duration::from_secs(600));
        }
        self.log.add(format!("{plugin} says {line}"));
    }

    fn plugin_changed(&self, status: &PluginStatus) {
        let name = status.id.as_ref().map_or("?".to_owned(), PluginId::to_string);
        self.log.add(format!("manager {name} {:?}", status.state));
    }
}

/// What a plugin does. Without more it hears of everything and wants nothing.
#[async_trait]
pub(crate) trait Script: Send + Sync + 'static {
    async fn configure(&self, _: ConfigureRequest) -> Option<ttrpc::Result<ConfigureResponse>> {
        None
    }
    async fn synchronize(
        &self,
        _: &RuntimeClient,
        r: SynchronizeRequest,
    ) -> ttrpc::Result<SynchronizeResponse> {
        Ok(SynchronizeResponse { more: r.more, ..Default::default() })
    }
    async fn create(
        &self,
        _: &RuntimeClient,
        _: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        Ok(CreateContainerResponse::new())
    }
    async fn update(&self, _: UpdateContainerRequest) -> ttrpc::Result<UpdateContainerResponse> {
        Ok(UpdateContainerResponse::new())
    }
    async fn stop(&self, _: StopContainerRequest) -> ttrpc::Result<StopContainerResponse> {
        Ok(StopContainerResponse::new())
    }
    async fn validate(
        &self,
        _: ValidateContainerAdjustmentRequest,
    ) -> ttrpc::Result<ValidateContainerAdjustmentResponse> {
        Ok(ValidateContainerAdjustmentResponse::new())
    }
    /// Any other event, by its own call.
    async fn event(&self, _: Event, _subject: &str) -> ttrpc::Result<()> {
        Ok(())
    }
    /// Any other event in its old form.
    async fn state_change_event(&self, _: Event, _subject: &str) -> ttrpc::Result<()> {
        Ok(())
    }
}

/// Does nothing.
pub(crate) struct Quiet;
impl Script for Quiet {}

/// A plugin's service that logs each call as `NN-name call subject` and leaves the rest to the
/// script.
struct Scripted<S> {
    name: String,
    events: EventMask,
    log: Log,
    runtime: OnceLock<RuntimeClient>,
    script: S,
}

impl<S: Script> Scripted<S> {
    fn received(&self, what: &str, subject: &str) {
        self.log.add(format!("{} {what} {subject}", self.name));
    }

    fn runtime(&self) -> &RuntimeClient {
        self.runtime.get().expect("set before the plugin registers")
    }
}

// All of the implementation is in the macro: async_trait does not see into one that stands inside.
macro_rules! scripted {
    ($($method:ident($request:ident) -> $reply:ident $about:ident $event:ident;)*) => {
        #[async_trait]
        impl<S: Script> Plugin for Scripted<S> {
            async fn configure(&self, _: &Context, r: ConfigureRequest) -> ttrpc::Result<ConfigureResponse> {
                let default = ConfigureResponse { events: self.events.bits(), ..Default::default() };
                self.script.configure(r).await.unwrap_or(Ok(default))
            }
            async fn synchronize(&self, _: &Context, r: SynchronizeRequest) -> ttrpc::Result<SynchronizeResponse> {
                let ids: Vec<_> = r.containers.iter().map(|c| c.id.as_str()).collect();
                self.received("synchronize", &ids.join(","));
                self.script.synchronize(self.runtime(), r).await
            }
            async fn shutdown(&self, _: &Context, _: Empty) -> ttrpc::Result<Empty> {
                self.received("shutdown", "");
                Ok(Empty::new())
            }
            async fn create_container(
                &self,
                _: &Context,
                r: CreateContainerRequest,
            ) -> ttrpc::Result<CreateContainerResponse> {
                self.received("create_container", &r.container.id);
                self.script.create(self.runtime(), r).await
            }
            async fn update_container(
                &self,
                _: &Context,
                r: UpdateContainerRequest,
            ) -> ttrpc::Result<UpdateContainerResponse> {
                self.received("update_container", &r.container.id);
                self.script.update(r).await
            }
            async fn stop_container(
                &self,
                _: &Context,
                r: StopContainerRequest,
            ) -> ttrpc::Result<StopContainerResponse> {
                self.received("stop_container", &r.container.id);
                self.script.stop(r).await
            }
            async fn validate_container_adjustment(
                &self,
                _: &Context,
                r: ValidateContainerAdjustmentRequest,
            ) -> ttrpc::Result<ValidateContainerAdjustmentResponse> {
                self.received("validate_container_adjustment", &r.container.id);
                self.script.validate(r).await
            }
            async fn state_change(&self, _: &Context, r: StateChangeEvent) -> ttrpc::Result<Empty> {
                let event = r.event.enum_value().unwrap();
                let subject = if r.container.is_some() { &r.container.id } else { &r.pod.id };
                self.received(&format!("state_change {event:?}"), subject);
                self.script.state_change_event(event, subject).await.map(|()| Empty::new())
            }
            $(async fn $method(&self, _: &Context, r: $request) -> ttrpc::Result<$reply> {
                self.received(stringify!($method), &r.$about.id);
                self.script.event(Event::$event, &r.$about.id).await.map(|()| $reply::new())
            })*
        }
    };
}

scripted! {
    run_pod_sandbox(RunPodSandboxRequest) -> RunPodSandboxResponse pod RUN_POD_SANDBOX;
    update_pod_sandbox(UpdatePodSandboxRequest) -> UpdatePodSandboxResponse pod UPDATE_POD_SANDBOX;
    post_update_pod_sandbox(PostUpdatePodSandboxRequest) -> PostUpdatePodSandboxResponse pod POST_UPDATE_POD_SANDBOX;
    stop_pod_sandbox(StopPodSandboxRequest) -> StopPodSandboxResponse pod STOP_POD_SANDBOX;
    remove_pod_sandbox(RemovePodSandboxRequest) -> RemovePodSandboxResponse pod REMOVE_POD_SANDBOX;
    post_create_container(PostCreateContainerRequest) -> PostCreateContainerResponse container POST_CREATE_CONTAINER;
    start_container(StartContainerRequest) -> StartContainerResponse container START_CONTAINER;
    post_start_container(PostStartContainerRequest) -> PostStartContainerResponse container POST_START_CONTAINER;
    post_update_container(PostUpdateContainerRequest) -> PostUpdateContainerResponse container POST_UPDATE_CONTAINER;
    remove_container(RemoveContainerRequest) -> RemoveContainerResponse container REMOVE_CONTAINER;
}

/// The plugin's end of a session.
pub(crate) struct Peer {
    pub(crate) end: Arc<PluginEnd>,
    pub(crate) name: String,
}

impl Peer {
    pub(crate) async fn register(&self) -> Result<Empty, nri_wire::CallError> {
        let (index, name) = self.name.split_once('-').unwrap();
        self.register_as(index, name).await
    }

    pub(crate) async fn register_as(
        &self,
        index: &str,
        name: &str,
    ) -> Result<Empty, nri_wire::CallError> {
        let request = RegisterPluginRequest {
            plugin_idx: index.into(),
            plugin_name: name.into(),
            NRI_version: "v0.12.0".into(),
            ..Default::default()
        };
        self.end.runtime().register_plugin(None, &request).await
    }
}

pub(crate) struct Harness {
    pub(crate) adaptation: Adaptation,
    pub(crate) manager: Arc<TestManager>,
    pub(crate) log: Log,
}

impl Harness {
    pub(crate) async fn new() -> Self {
        Self::with(AdaptationConfig::default()).await
    }

    /// With this configuration, but no plugin directory.
    pub(crate) async fn with(config: AdaptationConfig) -> Self {
        let config = AdaptationConfig { plugin_path: "/nonexistent/plugins".into(), ..config };
        let (harness, launched) = Self::launching(config).await.unwrap();
        assert!(launched.is_empty());
        harness
    }

    /// With this configuration, and what became of the plugins in its directory.
    pub(crate) async fn launching(
        config: AdaptationConfig,
    ) -> Result<(Self, Vec<LaunchOutcome>), AdaptError> {
        let log = Log(Arc::new(watch::Sender::new(Vec::new())));
        let manager = Arc::new(TestManager { state: Mutex::default(), log: log.clone() });
        let (adaptation, launched) = Adaptation::start(config, manager.clone()).await?;
        Ok((Self { adaptation, manager, log }, launched))
    }

    /// A connection with a plugin behind it that has not registered yet.
    pub(crate) async fn peer(
        &self,
        name: &str,
        events: &[Event],
        script: impl Script,
    ) -> (Peer, JoinHandle<Result<PluginId, SessionError>>) {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let adaptation = self.adaptation.clone();
        let connecting = tokio::spawn(async move { adaptation.connect(ours, Some(42)).await });
        (self.behind(name, events, theirs, script).await, connecting)
    }

    /// A quiet plugin at the end of this stream.
    pub(crate) async fn adopt(&self, name: &str, stream: tokio::net::UnixStream) -> Peer {
        self.behind(name, &[], stream, Quiet).await
    }

    async fn behind<S>(&self, name: &str, events: &[Event], stream: S, script: impl Script) -> Peer
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + 'static,
    {
        let service = Arc::new(Scripted {
            name: name.into(),
            events: events.iter().copied().collect(),
            log: self.log.clone(),
            runtime: OnceLock::new(),
            script,
        });
        let end = Arc::new(PluginEnd::new(stream, service.clone()).await.unwrap());
        service.runtime.set(end.runtime().clone()).unwrap();
        Peer { end, name: name.into() }
    }

    /// A plugin that registers and becomes active.
    pub(crate) async fn plugin(&self, name: &str, events: &[Event], script: impl Script) -> Peer {
        let (peer, connecting) = self.peer(name, events, script).await;
        peer.register().await.unwrap();
        assert_eq!(connecting.await.unwrap().unwrap().to_string(), name);
        peer
    }

    /// Creates a container, and records it at the commit.
    pub(crate) async fn create(&self, id: &str) -> Result<CreateOutcome, String> {
        create(&self.adaptation, &self.manager, &self.log, id).await
    }

    /// The same in a task.
    pub(crate) fn creating(&self, id: &str) -> JoinHandle<Result<CreateOutcome, String>> {
        let (adaptation, manager, log) =
            (self.adaptation.clone(), self.manager.clone(), self.log.clone());
        let id = id.to_owned();
        tokio::spawn(async move { create(&adaptation, &manager, &log, &id).await })
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.adaptation
            .plugins()
            .iter()
            .filter(|p| p.state == PluginState::Active)
            .map(|p| p.id.as_ref().unwrap().to_string())
            .collect()
    }
}

async fn create(
    a: &Adaptation,
    manager: &TestManager,
    log: &Log,
    id: &str,
) -> Result<CreateOutcome, String> {
    let request = CreateContainerRequest {
        pod: Some(pod("p")).into(),
        container: Some(container(id)).into(),
        ..Default::default()
    };
    let commit = async |outcome: CreateOutcome| {
        // Not in one go, so that a commit that is not alone would be seen.
        log.add(format!("commit begin {id}"));
        tokio::task::yield_now().await;
        manager.state.lock().unwrap().containers.push(outcome.container.clone());
        log.add(format!("commit end {id}"));
        outcome
    };
    a.create_container(request, &RequestContext::default(), async |outcome| outcome, commit)
        .await
        .map_err(|e| e.to_string())
}

pub(crate) fn pod(id: &str) -> PodSandbox {
    PodSandbox { id: id.into(), name: "pod".into(), ..Default::default() }
}

pub(crate) fn container(id: &str) -> Container {
    Container {
        id: id.into(),
        pod_sandbox_id: "p".into(),
        name: "container".into(),
        ..Default::default()
    }
}

/// A reply that sets an annotation.
pub(crate) fn annotate(key: &str, value: &str) -> CreateContainerResponse {
    let mut adjust = ContainerAdjustment::new();
    adjust.annotations.insert(key.into(), value.into());
    CreateContainerResponse { adjust: Some(adjust).into(), ..Default::default() }
}

/// An update of the CPU shares of a container.
pub(crate) fn shares(id: &str, shares: u64) -> ContainerUpdate {
    let mut update = ContainerUpdate { container_id: id.into(), ..Default::default() };
    let cpu = update
        .linux
        .mut_or_insert_default()
        .resources
        .mut_or_insert_default()
        .cpu
        .mut_or_insert_default();
    cpu.shares = nri_api::opt(Some(shares));
    update
}

pub(crate) fn unimplemented() -> ttrpc::Error {
    status(Code::UNIMPLEMENTED, "not implemented")
}

/// Lets everything happen that can happen without time passing. The runtime has one thread, so a
/// round of all tasks that are ready takes one yield; a thousand are more than any chain of
/// wake-ups here.
pub(crate) async fn run_until_idle() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}
