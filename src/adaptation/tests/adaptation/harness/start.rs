//! Start of an adaptation with a manager and scripted plugins.

use super::log::Log;
use super::manager::TestManager;
use super::messages::{container, pod};
use super::script::{Quiet, Script, Scripted};
use nri_adaptation::{
    AdaptError, Adaptation, AdaptationConfig, CreateOutcome, LaunchOutcome, PluginState,
    RequestContext, SessionError,
};
use nri_api::PluginId;
use nri_api::proto::*;
use nri_wire::PluginEnd;
use std::sync::{Arc, OnceLock};
use tokio::task::JoinHandle;

/// A scripted plugin's end of a session.
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

/// An adaptation, its manager, and the log of both.
pub(crate) struct Harness {
    pub(crate) adaptation: Adaptation,
    pub(crate) manager: Arc<TestManager>,
    pub(crate) log: Log,
}

impl Harness {
    pub(crate) async fn new() -> Self {
        Self::with(AdaptationConfig::default()).await
    }

    /// Starts with this configuration, without a plugin directory.
    pub(crate) async fn with(config: AdaptationConfig) -> Self {
        let config = AdaptationConfig { plugin_path: "/nonexistent/plugins".into(), ..config };
        let (harness, launched) = Self::start(config).await.unwrap();
        assert!(launched.is_empty());
        harness
    }

    /// Starts with this configuration. Returns the outcomes of its launches.
    pub(crate) async fn start(
        config: AdaptationConfig,
    ) -> Result<(Self, Vec<LaunchOutcome>), AdaptError> {
        let log = Log::new();
        let (state, origins) = Default::default();
        let manager = Arc::new(TestManager { state, origins, log: log.clone() });
        let (adaptation, launched) = Adaptation::start(config, manager.clone()).await?;
        Ok((Self { adaptation, manager, log }, launched))
    }

    /// Connects a plugin that has not registered yet. Its process id is 42.
    pub(crate) async fn connect_unregistered(
        &self,
        name: &str,
        events: &[Event],
        script: impl Script,
    ) -> (Peer, JoinHandle<Result<PluginId, SessionError>>) {
        self.connect_process(42, name, events, script).await
    }

    /// Connects a plugin of this process id that has not registered yet.
    pub(crate) async fn connect_process(
        &self,
        pid: u32,
        name: &str,
        events: &[Event],
        script: impl Script,
    ) -> (Peer, JoinHandle<Result<PluginId, SessionError>>) {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let adaptation = self.adaptation.clone();
        let connecting = tokio::spawn(async move { adaptation.connect(ours, Some(pid)).await });
        (self.serve(name, events, theirs, script).await, connecting)
    }

    /// Serves this stream as a plugin that changes nothing.
    pub(crate) async fn serve_quiet(&self, name: &str, stream: tokio::net::UnixStream) -> Peer {
        self.serve(name, &[], stream, Quiet).await
    }

    async fn serve<S>(&self, name: &str, events: &[Event], stream: S, script: impl Script) -> Peer
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

    /// Connects a plugin that registers and becomes active.
    pub(crate) async fn plugin(&self, name: &str, events: &[Event], script: impl Script) -> Peer {
        let (peer, connecting) = self.connect_unregistered(name, events, script).await;
        peer.register().await.unwrap();
        assert_eq!(connecting.await.unwrap().unwrap().to_string(), name);
        peer
    }

    /// Creates a container. The commit adds it to the manager's state.
    pub(crate) async fn create(&self, id: &str) -> Result<CreateOutcome, String> {
        create(&self.adaptation, &self.manager, &self.log, id).await
    }

    /// Spawns a task that creates a container.
    pub(crate) fn spawn_create(&self, id: &str) -> JoinHandle<Result<CreateOutcome, String>> {
        let (adaptation, manager, log) =
            (self.adaptation.clone(), self.manager.clone(), self.log.clone());
        let id = id.to_owned();
        tokio::spawn(async move { create(&adaptation, &manager, &log, &id).await })
    }

    /// Returns the names of the active plugins in call order.
    pub(crate) fn active_plugins(&self) -> Vec<String> {
        self.adaptation
            .plugins()
            .iter()
            .filter(|p| p.state == PluginState::Active)
            .map(|p| p.id.as_ref().unwrap().to_string())
            .collect()
    }
}

async fn create(
    adaptation: &Adaptation,
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
        // Yields, so that entries of a concurrent commit would be logged in between.
        log.add(format!("commit begin {id}"));
        tokio::task::yield_now().await;
        manager.state.lock().unwrap().containers.push(outcome.container.clone());
        log.add(format!("commit end {id}"));
        outcome
    };
    adaptation
        .create_container(request, &RequestContext::default(), async |outcome| outcome, commit)
        .await
        .map_err(|e| e.to_string())
}
