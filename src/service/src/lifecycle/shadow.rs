//! `mode = "shadow"`: plugins receive requests, their replies are logged, and nothing changes.

use crate::service::Service;
use nri_adaptation::{AdaptError, RequestContext};

impl Service {
    /// Returns the context of a request to plugins. In shadow mode all plugins receive the request,
    /// even after one has refused, and all are notified of the container's further life.
    pub fn request_context(&self) -> RequestContext {
        if self.resource_manager.policy().shadow {
            RequestContext::consult_all()
        } else {
            RequestContext::default()
        }
    }
}

/// Logs the refusals that shadow mode has ignored, and returns them.
pub fn log_refusals(context: RequestContext) -> Vec<AdaptError> {
    let refusals = context.into_refusals();
    for refusal in &refusals {
        tracing::info!(%refusal, "shadow: would be refused");
    }
    refusals
}
