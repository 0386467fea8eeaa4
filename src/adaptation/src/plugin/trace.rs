//! Trace context of requests. The caller of the adaptation says to which trace the calls of a task
//! belong; each plugin receives it with its call.

use nri_api::PluginId;
use nri_wire::TraceContext;
use std::{error::Error, sync::Arc};

tokio::task_local! {
    /// Trace of the request that this task handles.
    static CURRENT: Arc<dyn RequestTrace>;
}

/// Trace of one request.
pub trait RequestTrace: Send + Sync {
    /// Begins the call of a plugin by the name of the call.
    fn start_call(&self, plugin: &PluginId, method: &'static str) -> Box<dyn CallTrace>;

    /// Returns the context of the request itself.
    fn context(&self) -> Option<TraceContext>;

    /// Receives the error with which the request fails.
    fn fail(&self, error: &str) {
        let _ = error;
    }
}

/// Trace of one call of a plugin.
pub trait CallTrace: Send {
    /// Returns the context that the plugin receives.
    fn context(&self) -> Option<&TraceContext>;

    /// Ends the call, with its error.
    fn end(self: Box<Self>, error: Option<&dyn Error>);
}

/// Runs a future whose requests belong to a trace. A task that it spawns does not, unless its
/// future is [`inherited`].
pub async fn traced<F: Future>(trace: Arc<dyn RequestTrace>, future: F) -> F::Output {
    CURRENT.scope(trace, future).await
}

/// Returns the trace to which requests of this task belong.
pub fn current_trace() -> Option<Arc<dyn RequestTrace>> {
    CURRENT.try_with(Arc::clone).ok()
}

/// Returns a future for another task, whose requests belong to the trace of this task.
pub fn inherited<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let trace = current_trace();
    async move {
        match trace {
            Some(trace) => traced(trace, future).await,
            None => future.await,
        }
    }
}

/// Begins the call of a plugin in the trace of this task.
pub(crate) fn start_call(plugin: &PluginId, method: &'static str) -> Option<Box<dyn CallTrace>> {
    CURRENT.try_with(|trace| trace.start_call(plugin, method)).ok()
}

/// A trace of which nothing is recorded here: plugins receive the context of the request.
impl RequestTrace for Option<TraceContext> {
    fn start_call(&self, _: &PluginId, _: &'static str) -> Box<dyn CallTrace> {
        Box::new(self.clone())
    }

    fn context(&self) -> Option<TraceContext> {
        self.clone()
    }
}

impl CallTrace for Option<TraceContext> {
    fn context(&self) -> Option<&TraceContext> {
        self.as_ref()
    }

    fn end(self: Box<Self>, _: Option<&dyn Error>) {}
}
