//! `mode = "shadow"`: plugins are asked, their replies are logged, and nothing changes.

use crate::service::Service;
use nri_adaptation::RequestContext;

impl Service {
    /// How plugins are asked. In shadow mode all of them are asked, even after one refused, and all
    /// are notified of the rest of a container's life.
    pub fn asking(&self) -> RequestContext {
        if self.resource_manager.policy().shadow {
            RequestContext::consult_all()
        } else {
            RequestContext::default()
        }
    }
}

/// Logs the refusals that shadow mode has ignored.
pub fn log_refusals(asking: RequestContext) {
    for refusal in asking.into_refusals() {
        tracing::info!(%refusal, "shadow: would be refused");
    }
}
