//! Serves the metrics of [`Service`] where its configuration says.

use crate::{
    host::file_access::{self, FileSystem, LOOKUP_TIMEOUT},
    metrics::families::MetricsSource,
    service::Service,
};

impl Service {
    /// Serves metrics where the configuration says, unless they are served there. Called at the
    /// start, at each reload, and at intervals, so that a removed socket or a port that was in use
    /// does not keep metrics away for long.
    pub async fn serve_metrics(&self) {
        let (wanted, metrics) = (self.settings().config.metrics.listen.clone(), &self.metrics);
        if wanted.is_none() && metrics.address().is_none() {
            metrics.set_error(None);
            return;
        }
        let source = MetricsSource {
            adaptation: self.plugins.adaptation.clone(),
            registry: self.registry.clone(),
            resource_manager: self.resource_manager.clone(),
            started: self.started,
            start_time: metrics.start_time,
        };
        let (listener, address) = (metrics.clone(), wanted.clone());
        let listen = move || listener.listen_at(address.as_ref(), source);
        let listening = file_access::run(FileSystem::Metrics, LOOKUP_TIMEOUT, listen).await;
        if let (Err(hangs), Some(address)) = (listening, wanted) {
            metrics.set_error(Some(format!("metrics cannot be served at {address}: {hangs}")));
        }
    }
}
