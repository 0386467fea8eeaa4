//! [`Service`]: the state that all requests share. Each runtime verb is served in the file of its
//! name, such as `verb/create.rs`.

use crate::{
    audit::Audit,
    bundle::bounded::LargeConfigs,
    cgroup::oom_events::OomMonitor,
    engine::engines::Engines,
    host::path::probe::PathProbe,
    metrics::{families::MetricsSource, listener::MetricsListener},
    plugins::launch::Plugins,
    process::this_process::ThisProcess,
    resources::manager::ResourceManager,
    settings::load::Settings,
    state::{registry::Registry, verbs::VerbsInProgress},
};
use parking_lot::RwLock;
use std::{sync::Arc, time::SystemTime};

/// State of `nrid` that all requests share.
pub struct Service {
    settings: RwLock<Arc<Settings>>,
    /// This process.
    pub process: ThisProcess,
    /// The engines.
    pub engines: Engines,
    /// The plugins.
    pub plugins: Plugins,
    /// The known containers and pods.
    pub registry: Arc<Registry>,
    /// The resources of the containers.
    pub resource_manager: Arc<ResourceManager>,
    /// The verbs in progress.
    pub verbs: VerbsInProgress,
    /// Permits for creations with a large `config.json`.
    pub large_configs: LargeConfigs,
    /// The audit log.
    pub audit: Audit,
    /// Where metrics are served.
    pub metrics: Arc<MetricsListener>,
    /// Probes paths that plugins and bundles name.
    pub path_probe: PathProbe,
    /// Watches for OOM kills.
    pub oom_monitor: OomMonitor,
}

impl Service {
    /// Creates the state for the containers of which plugins know.
    pub fn new(
        settings: Settings,
        process: ThisProcess,
        engines: Engines,
        plugins: Plugins,
        verbs: VerbsInProgress,
    ) -> Self {
        let resource_manager = plugins.requests.resources.clone();
        let source = MetricsSource {
            adaptation: plugins.adaptation.clone(),
            resource_manager: resource_manager.clone(),
            started: process.start.time,
            start_time: SystemTime::now(),
        };
        Self {
            settings: RwLock::new(Arc::new(settings)),
            audit: resource_manager.audit.clone(),
            metrics: Arc::new(MetricsListener::new(source)),
            path_probe: PathProbe::default(),
            oom_monitor: OomMonitor::new(process.descriptors.clone(), process.problems.clone()),
            process,
            engines,
            plugins,
            registry: resource_manager.registry.clone(),
            resource_manager,
            verbs,
            large_configs: LargeConfigs::default(),
        }
    }

    /// Returns the current settings. A reload may happen between two calls: values that must be
    /// consistent have to come from one call.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.read().clone()
    }

    /// Replaces the settings.
    pub fn set_settings(&self, settings: Arc<Settings>) {
        *self.settings.write() = settings;
    }

    /// Whether a request is in progress, or a lock is held.
    pub fn is_busy(&self) -> bool {
        self.process.is_busy() || self.verbs.locks.is_busy()
    }
}
