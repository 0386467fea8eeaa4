//! [`Service`]: the state that all requests share. Each runtime verb is served in the file of its
//! name, such as `verb/create.rs`.

use crate::{
    audit::Audit,
    cgroup::oom_events::OomMonitor,
    daemon::{log::Log, parent::Parent, program::Program},
    engine::{docker_names::DockerNames, own_nri::EngineNri},
    error::CallerError,
    host::{
        descriptors::Descriptors, mount_namespace::MountNamespaces, path_probe::PathProbe,
        problems::Problems,
    },
    metrics::listener::MetricsListener,
    plugins::launch::Plugins,
    resources::manager::ResourceManager,
    settings::load::Settings,
    state::{claims::Claims, followed::FollowedRuntimes, locks::Locks, registry::Registry},
};
use nri_config::parse_log_level;
use nri_control::Inherited;
use nri_files::UncleanEnd;
use parking_lot::RwLock;
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};
use tokio::sync::watch;

/// State of `nrid` that all requests share.
pub struct Service {
    /// The current settings.
    pub settings: RwLock<Arc<Settings>>,
    /// The log.
    pub log: Log,
    /// Held while the configuration is reloaded.
    pub reloading: tokio::sync::Mutex<()>,
    /// The known containers and pods.
    pub registry: Arc<Registry>,
    /// The locks of containers, bundles and pods.
    pub locks: Locks,
    /// The ids of creations in progress.
    pub claims: Claims,
    /// The runtimes that wrappers have become.
    pub followed: FollowedRuntimes,
    /// Current names of Docker's containers.
    pub docker_names: DockerNames,
    /// Lookup of engines that have their own NRI enabled.
    pub engine_nri: EngineNri,
    /// Mount namespaces of engines, where they differ from that of `nrid`.
    pub namespaces: MountNamespaces,
    /// Probes paths that plugins and bundles name.
    pub path_probe: PathProbe,
    /// Shares of this process's limit of open files.
    pub descriptors: Arc<Descriptors>,
    /// Watches for OOM kills.
    pub oom_monitor: OomMonitor,
    /// Conditions of the host that limit what `nrid` can do.
    pub problems: Problems,
    /// Where metrics are served.
    pub metrics: Arc<MetricsListener>,
    /// The resources of the containers.
    pub resource_manager: Arc<ResourceManager>,
    /// The plugins.
    pub plugins: Plugins,
    /// The audit log.
    pub audit: Audit,
    /// Time of the start.
    pub started: Instant,
    /// Paths of the sockets for plugins.
    pub plugin_sockets: Vec<PathBuf>,
    /// The program of this process; `None` if its path is unknown.
    pub program: Option<Program>,
    /// The parent of this process.
    pub parent: Parent,
    /// What `nrid` has inherited from the process that started it, and cannot reset.
    pub inherited: Vec<Inherited>,
    /// Last end of an `nrid` of this state directory that was not clean.
    pub unclean_end: Option<UncleanEnd>,
    /// The end that was requested; `None` while `nrid` serves.
    pub ending: watch::Sender<Option<Ending>>,
    /// Whether `nrid` ends without completing the requests in progress. The next `nrid` completes
    /// them.
    pub abandoned: watch::Sender<bool>,
    /// Number of requests in progress.
    pub in_progress: AtomicUsize,
}

/// A request in progress: a clean end waits for it.
pub struct InProgress<'a>(&'a Service);

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.0.in_progress.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The end of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The process ends.
    Stop,
    /// The program at this path replaces the running one in the same process.
    Restart(PathBuf),
}

impl Service {
    /// Returns the current settings. A reload may happen between two calls: values that must be
    /// consistent have to come from one call.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.read().clone()
    }

    /// Replaces the settings.
    pub fn set_settings(&self, settings: Arc<Settings>) {
        *self.settings.write() = settings;
    }

    /// Changes the level of the log until the next reload; `None` means that of the configuration.
    ///
    /// # Errors
    /// The level is unknown.
    pub fn set_log_level(&self, level: Option<&str>) -> Result<(), CallerError> {
        let level = level.map(parse_log_level).transpose()?;
        let configured = self.settings().config.log.level.clone();
        let level = level.unwrap_or(configured);
        // Logged before and after, so that one of both is not filtered out.
        tracing::info!(level, "the level of the log changes");
        self.log.set_level(level.clone());
        tracing::info!(level, "the level of the log has changed");
        Ok(())
    }

    /// Requests a clean end. A stop cannot be changed to a restart.
    pub fn end(&self, ending: Ending) {
        self.ending.send_modify(|requested| {
            if *requested != Some(Ending::Stop) {
                *requested = Some(ending);
            }
        });
    }

    /// Counts a request as in progress. Returns `None` if an end was requested: the next `nrid`
    /// then serves the request. The request is counted before the check, so that an end that is
    /// requested after the check waits for the request.
    pub fn start_request(&self) -> Option<InProgress<'_>> {
        self.in_progress.fetch_add(1, Ordering::SeqCst);
        let request = InProgress(self);
        self.ending.borrow().is_none().then_some(request)
    }

    /// Whether a request is in progress, or a lock is held.
    pub fn is_busy(&self) -> bool {
        self.in_progress.load(Ordering::SeqCst) > 0 || self.locks.is_busy()
    }

    /// Waits until `nrid` abandons the requests in progress, which the next `nrid` completes.
    pub async fn abandoned(&self) {
        let mut receiver = self.abandoned.subscribe();
        // Cannot fail: the sender is a field of `self`, so it is not dropped meanwhile.
        let _ = receiver.wait_for(|abandoned| *abandoned).await;
    }

    /// Waits until a clean end is requested.
    pub async fn end_requested(&self) {
        let mut receiver = self.ending.subscribe();
        // Cannot fail: the sender is a field of `self`, so it is not dropped meanwhile.
        let _ = receiver.wait_for(Option::is_some).await;
    }
}
