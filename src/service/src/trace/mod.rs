//! Traces of requests: the trace context, from the engine to the plugins, and spans for OTLP.
//!
//! Without the feature `otlp`, or without `[tracing] endpoint`, nothing is recorded, and plugins
//! receive the context of the engine unchanged.

mod configure;
#[cfg(feature = "otlp")]
mod otlp;
mod request;
mod sink;

pub use configure::configure;
pub use request::TracedRequest;
pub use sink::{SpanCounts, counts, flush};
