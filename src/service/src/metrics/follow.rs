//! Serves the metrics of [`Service`] where its configuration says.

use crate::{metrics::families::MetricsSource, service::Service};

impl Service {
    /// Serves metrics where the configuration says, unless they are served there. Called at the
    /// start, at each reload, and at intervals, so that a removed socket or a port that was in use
    /// does not keep metrics away for long.
    pub fn serve_metrics(&self) {
        let settings = self.settings();
        self.metrics.listen_at(settings.config.metrics.listen.as_ref(), |start_time| {
            MetricsSource {
                adaptation: self.adaptation.clone(),
                registry: self.registry.clone(),
                resource_manager: self.resource_manager.clone(),
                started: self.started,
                start_time,
            }
        });
    }
}
