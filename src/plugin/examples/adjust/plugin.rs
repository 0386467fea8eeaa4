//! The plugin: logs each event, and replies to creations and updates as the configuration says.

use super::{config::AdjustConfig, updates::Updates};
use nri_plugin::{
    Changes, Configured, Creation, EventMask, Plugin, Reply, Session, Update, handled_events,
    proto::*,
};
use serde_json::{Value, json};
use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

pub(crate) struct Adjust {
    config: Configured<AdjustConfig>,
    /// Log path from the command line; overrides the path in the configuration.
    log: Option<PathBuf>,
    /// `None` unless updates are requested on stdin.
    updates: Option<Arc<Updates>>,
}

impl Adjust {
    /// Creates the plugin; `log` is the log path from the command line, and `updates` says whether
    /// updates are requested on stdin.
    pub(crate) fn new(
        config: Configured<AdjustConfig>,
        log: Option<PathBuf>,
        updates: bool,
    ) -> Self {
        Self { config, log, updates: updates.then(Arc::default) }
    }

    fn config(&self) -> Arc<AdjustConfig> {
        self.config.get()
    }

    /// Appends a line with event, pod, container and resources to the log.
    fn log(
        &self,
        event: &str,
        pod: Option<&PodSandbox>,
        container: Option<&Container>,
        resources: Option<&LinuxResources>,
    ) -> Reply<()> {
        let Some(path) = self.log_path() else { return Ok(()) };
        let mut line = json!({ "event": event });
        if let Some(pod) = pod {
            line["pod"] = pod.id.as_str().into();
        }
        if let Some(container) = container {
            line["container"] = container.id.as_str().into();
        }
        if let Some(resources) = resources {
            line["resources"] =
                serde_json::from_str(&protobuf_json_mapping::print_to_string(resources)?)?;
        }
        append(&path, &line)
    }

    fn log_path(&self) -> Option<PathBuf> {
        self.log.clone().or_else(|| self.config().log.clone())
    }

    /// Starts the thread that requests updates, if this is the first session.
    fn read_updates(&self, session: &Session) {
        let Some(updates) = self.updates.clone() else { return };
        if !updates.set_session(session) {
            return;
        }
        let (runtime, log) = (tokio::runtime::Handle::current(), self.log_path());
        std::thread::spawn(move || {
            updates.read_stdin(&runtime, |result| {
                let line = match result {
                    Ok((container, failed)) => json!({
                        "event": "UpdateContainers", "container": container,
                        "failed": failed.len()
                    }),
                    Err(e) => json!({ "event": "UpdateContainers", "error": e.to_string() }),
                };
                if let Some(Err(e)) = log.as_ref().map(|path| append(path, &line)) {
                    tracing::error!("{e}");
                }
            });
        });
    }

    fn log_pod(&self, event: &str, pod: &PodSandbox) -> Reply<()> {
        self.log(event, Some(pod), None, None)
    }

    fn log_container(&self, event: &str, pod: &PodSandbox, container: &Container) -> Reply<()> {
        self.log(event, Some(pod), Some(container), container.linux.resources.as_ref())
    }
}

/// Appends a line to the log.
fn append(path: &Path, line: &Value) -> Reply<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    // One write, so that lines are not interleaved.
    file.write_all(format!("{line}\n").as_bytes())?;
    Ok(())
}

impl Plugin for Adjust {
    /// Subscribes to all events, but to validation only with a log: the plugin has nothing else to
    /// do in a validation, and containers are refused if a validator hangs.
    fn events(&self) -> EventMask {
        let handled = handled_events::<Self>();
        if self.log.is_some() || self.config().log.is_some() {
            handled
        } else {
            handled.without(Event::VALIDATE_CONTAINER_ADJUSTMENT)
        }
    }

    async fn configure(&self, _: &Session, config: &str) -> Reply<()> {
        self.config.read_toml(config)?;
        self.log("Configure", None, None, None)
    }

    async fn synchronize(
        &self,
        session: &Session,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Reply<Vec<Update>> {
        self.read_updates(session);
        self.log("Synchronize", None, None, None)?;
        for pod in &pods {
            self.log_pod("Synchronize", pod)?;
        }
        for container in &containers {
            let pod = pods.iter().find(|p| p.id == container.pod_sandbox_id);
            self.log("Synchronize", pod, Some(container), container.linux.resources.as_ref())?;
        }
        Ok(Vec::new())
    }

    async fn shutdown(&self, _: &Session) {
        self.log("Shutdown", None, None, None).ok(); // the runtime is closing the connection
    }

    async fn run_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        self.log_pod("RunPodSandbox", &pod)
    }

    async fn update_pod_sandbox(
        &self,
        _: &Session,
        pod: PodSandbox,
        _: LinuxResources,
        resources: LinuxResources,
    ) -> Reply<()> {
        self.log("UpdatePodSandbox", Some(&pod), None, Some(&resources))
    }

    async fn post_update_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        self.log_pod("PostUpdatePodSandbox", &pod)
    }

    async fn stop_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        self.log_pod("StopPodSandbox", &pod)
    }

    async fn remove_pod_sandbox(&self, _: &Session, pod: PodSandbox) -> Reply<()> {
        self.log_pod("RemovePodSandbox", &pod)
    }

    async fn create_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Creation> {
        self.log_container("CreateContainer", &pod, &container)?;
        let config = self.config();
        if !config.filter.matches(&pod, &container) {
            return Ok(Creation::default());
        }
        if let Some(message) = &config.create.refuse {
            return Err(message.as_str().into());
        }
        Ok(config.create.adjustment().into())
    }

    async fn post_create_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        self.log_container("PostCreateContainer", &pod, &container)
    }

    async fn start_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        self.log_container("StartContainer", &pod, &container)
    }

    async fn post_start_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        self.log_container("PostStartContainer", &pod, &container)
    }

    async fn update_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
        resources: LinuxResources,
    ) -> Reply<Changes> {
        self.log("UpdateContainer", Some(&pod), Some(&container), Some(&resources))?;
        let config = self.config();
        match &config.update {
            Some(rules) if config.filter.matches(&pod, &container) => {
                let mut update = Update::new(container.id);
                rules.apply(&mut update);
                Ok(update.into())
            }
            _ => Ok(Changes::default()),
        }
    }

    async fn post_update_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        self.log_container("PostUpdateContainer", &pod, &container)
    }

    async fn stop_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Vec<Update>> {
        self.log_container("StopContainer", &pod, &container)?;
        Ok(Vec::new())
    }

    async fn remove_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        self.log_container("RemoveContainer", &pod, &container)
    }

    async fn validate_container_adjustment(
        &self,
        _: &Session,
        request: ValidateContainerAdjustmentRequest,
    ) -> Reply<()> {
        let resources = request.adjust.linux.resources.as_ref();
        self.log(
            "ValidateContainerAdjustment",
            request.pod.as_ref(),
            request.container.as_ref(),
            resources,
        )
    }
}
