//! State that sessions, launches and events share: configuration, pipeline, registry, tasks.

use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

use crate::config::AdaptationConfig;
use crate::manager::ContainerManager;
use crate::order::pipeline::Pipeline;
use crate::plugin::histogram::DurationRecorder;
use crate::plugin::queue::{QueuePermit, Ticket};
use crate::plugin::registry::PluginRegistry;
use crate::plugin::statistics::StatisticsTable;
use crate::plugin::status::PluginStatus;
use crate::policy::peers::PeerRefusal;
use nri_wire::CallLimits;

/// Shared state of an adaptation.
pub(crate) struct Core {
    config: RwLock<Arc<AdaptationConfig>>,
    pub(crate) manager: Arc<dyn ContainerManager>,
    pub(crate) pipeline: Pipeline,
    pub(crate) registry: PluginRegistry,
    pub(crate) statistics: StatisticsTable,
    /// Times that requests waited for the commits of earlier requests.
    pub(crate) commit_queue: DurationRecorder,
    /// Limits of the plugins' requests, shared by all sessions.
    pub(crate) call_limits: CallLimits,
    pub(crate) runtime: Handle,
    shutdown: watch::Sender<bool>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Core {
    /// Creates the state. Must be called within a tokio runtime.
    pub(crate) fn new(config: AdaptationConfig, manager: Arc<dyn ContainerManager>) -> Self {
        Self {
            config: RwLock::new(Arc::new(config)),
            manager,
            pipeline: Pipeline::default(),
            registry: PluginRegistry::default(),
            statistics: StatisticsTable::default(),
            commit_queue: DurationRecorder::default(),
            call_limits: CallLimits::default(),
            runtime: Handle::current(),
            shutdown: watch::Sender::new(false),
            tasks: Mutex::default(),
        }
    }

    /// Returns the current configuration.
    pub(crate) fn config(&self) -> Arc<AdaptationConfig> {
        self.config.read().clone()
    }

    /// Replaces the configuration.
    pub(crate) fn set_config(&self, config: Arc<AdaptationConfig>) {
        *self.config.write() = config;
    }

    /// Waits for the permit of the commit queue, and records the time.
    pub(crate) async fn permit_to_commit(&self, ticket: Ticket) -> QueuePermit {
        let permit = ticket.permit().await;
        self.commit_queue.record(permit.waited());
        permit
    }

    /// Adds a refused connection to the registry, and notifies the manager unless a connection
    /// refused for the same reason is listed already.
    pub(crate) fn notify_refused(&self, pid: Option<u32>, why: &PeerRefusal) {
        if let Some(status) = self.registry.add_refused(pid, &why.to_string()) {
            self.notify_changed(status);
        }
    }

    /// Notifies the manager of a plugin's new status.
    pub(crate) fn notify_changed(&self, status: PluginStatus) {
        self.manager.plugin_changed(&status);
    }

    /// Runs a task that the shutdown waits for, unless the task is aborted with the returned
    /// handle.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = self.tasks.lock();
        tasks.retain(|t| !t.is_finished());
        let task = self.runtime.spawn(task);
        let handle = task.abort_handle();
        tasks.push(task);
        handle
    }

    /// Waits until all tasks have ended, including tasks that are spawned meanwhile.
    pub(crate) async fn join_tasks(&self) {
        loop {
            let tasks = std::mem::take(&mut *self.tasks.lock());
            if tasks.is_empty() {
                return;
            }
            for task in tasks {
                // A task that panicked has ended as well.
                let _ = task.await;
            }
        }
    }

    /// Starts the shutdown.
    pub(crate) fn start_shutdown(&self) {
        self.shutdown.send_replace(true);
    }

    /// Waits until the shutdown starts.
    pub(crate) async fn wait_for_shutdown(&self) {
        // The sender is a field of self, so the channel stays open.
        let _ = self.shutdown.subscribe().wait_for(|is_down| *is_down).await;
    }

    /// Whether the shutdown has started.
    pub(crate) fn is_shutting_down(&self) -> bool {
        *self.shutdown.borrow()
    }
}
