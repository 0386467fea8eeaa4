//! Trace context of requests. The caller of the adaptation says to which trace the calls of a task
//! belong; each plugin receives the context with its call.

use nri_wire::TraceContext;
use std::sync::{Arc, OnceLock};

tokio::task_local! {
    /// Trace of the request that this task handles.
    static CURRENT: Arc<RequestTrace>;
}

/// Trace of one request. Its context may become known after the request has begun.
#[derive(Debug, Default)]
pub struct RequestTrace(OnceLock<TraceContext>);

impl RequestTrace {
    /// Sets the context, unless one is known. Calls of plugins before have none.
    pub fn adopt(&self, context: Option<TraceContext>) {
        if let Some(context) = context {
            let _ = self.0.set(context);
        }
    }

    /// Returns the context that plugins receive.
    pub fn context(&self) -> Option<&TraceContext> {
        self.0.get()
    }
}

impl From<Option<TraceContext>> for RequestTrace {
    fn from(context: Option<TraceContext>) -> Self {
        let trace = Self::default();
        trace.adopt(context);
        trace
    }
}

/// Runs a future whose requests belong to a trace. A task that it spawns does not, unless its
/// future is [`inherited`].
pub async fn traced<F: Future>(trace: Arc<RequestTrace>, future: F) -> F::Output {
    CURRENT.scope(trace, future).await
}

/// Returns the trace to which requests of this task belong.
pub(crate) fn current_trace() -> Option<Arc<RequestTrace>> {
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
