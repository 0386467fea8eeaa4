//! Where ended spans go: to the exporter of the configuration, of which a process has one.

use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

/// The exporter; `None` if no spans are recorded.
static SINK: RwLock<Option<Arc<dyn SpanSink>>> = RwLock::new(None);

static EXPORTED: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Receives spans. Must not block.
pub(super) trait SpanSink: Send + Sync {
    /// Returns a new id of a trace.
    fn new_trace_id(&self) -> u128;

    /// Returns a new id of a span.
    fn new_span_id(&self) -> u64;

    /// Takes a span that has ended.
    fn record(&self, span: EndedSpan);

    /// Waits until the recorded spans are exported, or the time has passed.
    fn flush(&self, timeout: Duration);
}

/// A span that has ended.
#[derive(Debug)]
#[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "read by the exporter only"))]
pub(super) struct EndedSpan {
    pub(super) trace_id: u128,
    pub(super) id: u64,
    /// The parent, and whether it is a span of another process.
    pub(super) parent: Option<(u64, bool)>,
    pub(super) trace_state: Option<String>,
    pub(super) name: &'static str,
    /// Whether this process makes the call, of which the span is.
    pub(super) is_client: bool,
    pub(super) start: SystemTime,
    pub(super) end: SystemTime,
    pub(super) attributes: Vec<(&'static str, String)>,
    pub(super) error: Option<String>,
}

/// Numbers of spans since the start.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpanCounts {
    /// Spans that a collector has received.
    pub exported: u64,
    /// Spans that were dropped: no collector received them, or the queue was full.
    pub dropped: u64,
}

/// Returns the numbers of spans.
pub fn counts() -> SpanCounts {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    SpanCounts { exported: read(&EXPORTED), dropped: read(&DROPPED) }
}

/// Sets the exporter.
#[cfg(feature = "otlp")]
pub(super) fn set(sink: Option<Arc<dyn SpanSink>>) {
    *SINK.write().unwrap_or_else(PoisonError::into_inner) = sink;
}

/// Waits until the recorded spans are exported, or the time has passed.
pub fn flush(timeout: Duration) {
    if let Some(sink) = sink() {
        sink.flush(timeout);
    }
}

/// Returns the exporter.
pub(super) fn sink() -> Option<Arc<dyn SpanSink>> {
    SINK.read().unwrap_or_else(PoisonError::into_inner).clone()
}

#[cfg(feature = "otlp")]
pub(super) fn count_exported(number: usize) {
    EXPORTED.fetch_add(number as u64, Ordering::Relaxed);
}

#[cfg(feature = "otlp")]
pub(super) fn count_dropped(number: usize) {
    DROPPED.fetch_add(number as u64, Ordering::Relaxed);
}
