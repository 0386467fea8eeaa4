//! Trace context of verbs: from the engine to the plugins.

use nri_adaptation::{CallTrace, RequestTrace, TraceContext};
use nri_api::PluginId;
use nri_control::OsText;
use std::sync::OnceLock;

/// Trace of a verb.
#[derive(Debug)]
pub struct VerbTrace {
    context: OnceLock<TraceContext>,
}

impl VerbTrace {
    /// Returns the trace that the environment of the runtime names.
    pub fn of_environment(environment: &[OsText]) -> Self {
        let trace = Self { context: OnceLock::new() };
        trace.adopt(environment.iter().filter_map(|entry| entry.0.to_str()));
        trace
    }

    /// Takes the trace that another environment names, unless one is known. `BuildKit` sets that of
    /// the container's process.
    pub fn adopt<'a>(&self, environment: impl IntoIterator<Item = &'a str>) {
        if self.context.get().is_none()
            && let Some(context) = TraceContext::of_environment(environment)
        {
            let _ = self.context.set(context);
        }
    }
}

impl RequestTrace for VerbTrace {
    fn start_call(&self, _: &PluginId, _: &'static str) -> Box<dyn CallTrace> {
        Box::new(self.context())
    }

    fn context(&self) -> Option<TraceContext> {
        self.context.get().cloned()
    }
}
