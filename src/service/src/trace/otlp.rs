//! Exports spans by OTLP over HTTP. Requests only put spans into a queue; a thread sends them.

use crate::trace::sink::{EndedSpan, SpanSink, count_dropped, count_exported};
use nri_config::CollectorUrl;
use opentelemetry::{
    InstrumentationScope, KeyValue,
    trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState},
};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{IdGenerator, RandomIdGenerator, SpanData, SpanEvents, SpanExporter as _, SpanLinks},
};
use std::{
    str::FromStr,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::runtime;

/// Maximum number of spans that wait. Beyond it, spans are dropped.
const MAX_QUEUE: usize = 4096;

/// Maximum number of spans in one request to the collector.
const MAX_BATCH: usize = 512;

/// Time that a span waits for others, so that they are sent together.
const BATCH_INTERVAL: Duration = Duration::from_millis(500);

/// Time limit of a request to the collector.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a reply of the collector in bytes.
const MAX_REPLY: u64 = 64 << 10;

/// The queue of the exporter. Its thread ends when this value is dropped.
struct OtlpQueue(SyncSender<Queued>);

enum Queued {
    Span(Box<EndedSpan>),
    /// Confirmed when all spans before it are exported or dropped.
    Flush(SyncSender<()>),
}

/// Starts an exporter; `None` if that fails, which is logged.
pub(super) fn exporter_to(collector: &CollectorUrl) -> Option<Arc<dyn SpanSink>> {
    let (sender, receiver) = sync_channel(MAX_QUEUE);
    let started = SpanSender::new(collector).and_then(|exporter| {
        thread::Builder::new().name("otlp".to_owned()).spawn(move || exporter.run(&receiver))?;
        Ok(())
    });
    if let Err(error) = started {
        tracing::error!(%error, "spans are not exported");
        return None;
    }
    tracing::info!(collector = collector.as_str(), "spans are exported");
    Some(Arc::new(OtlpQueue(sender)))
}

impl SpanSink for OtlpQueue {
    fn new_trace_id(&self) -> u128 {
        u128::from_be_bytes(RandomIdGenerator::default().new_trace_id().to_bytes())
    }

    fn new_span_id(&self) -> u64 {
        u64::from_be_bytes(RandomIdGenerator::default().new_span_id().to_bytes())
    }

    fn record(&self, span: EndedSpan) {
        if self.0.try_send(Queued::Span(Box::new(span))).is_err() {
            count_dropped(1);
        }
    }

    fn flush(&self, timeout: Duration) {
        let (sender, confirmed) = sync_channel(1);
        if self.0.try_send(Queued::Flush(sender)).is_ok() {
            let _ = confirmed.recv_timeout(timeout);
        }
    }
}

/// Sends spans to a collector.
struct SpanSender {
    exporter: SpanExporter,
    runtime: runtime::Runtime,
    scope: InstrumentationScope,
    /// Whether the last request failed, which is logged once.
    has_failed: bool,
}

impl SpanSender {
    fn new(collector: &CollectorUrl) -> Result<Self, Box<dyn std::error::Error>> {
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build();
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(CollectorClient(agent.into()))
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/traces", collector.as_str()))
            .with_timeout(TIMEOUT)
            .build()?;
        let version = env!("CARGO_PKG_VERSION");
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let attributes =
            [KeyValue::new("service.version", version), KeyValue::new("host.name", host)];
        let resource = Resource::builder_empty().with_service_name("nrid");
        exporter.set_resource(&resource.with_attributes(attributes).build());
        let scope = InstrumentationScope::builder("nrid").with_version(version).build();
        let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
        Ok(Self { exporter, runtime, scope, has_failed: false })
    }

    /// Exports spans until the queue is dropped.
    fn run(mut self, queue: &Receiver<Queued>) {
        while let Ok(first) = queue.recv() {
            let deadline = Instant::now() + BATCH_INTERVAL;
            let mut spans = Vec::new();
            let mut next = Ok(first);
            let flushed = loop {
                match next {
                    Ok(Queued::Span(span)) => spans.push(*span),
                    Ok(Queued::Flush(confirm)) => break Some(confirm),
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break None,
                }
                if spans.len() == MAX_BATCH {
                    break None;
                }
                next = queue.recv_timeout(deadline.saturating_duration_since(Instant::now()));
            };
            self.export(spans);
            if let Some(confirm) = flushed {
                let _ = confirm.send(());
            }
        }
    }

    fn export(&mut self, spans: Vec<EndedSpan>) {
        if spans.is_empty() {
            return;
        }
        let number = spans.len();
        let spans = spans.into_iter().map(|span| data(span, &self.scope)).collect();
        match self.runtime.block_on(self.exporter.export(spans)) {
            Ok(()) => {
                count_exported(number);
                if std::mem::take(&mut self.has_failed) {
                    tracing::info!("the collector receives spans again");
                }
            }
            Err(error) => {
                count_dropped(number);
                if !std::mem::replace(&mut self.has_failed, true) {
                    tracing::warn!(%error, "the collector receives no spans, they are dropped");
                }
            }
        }
    }
}

fn data(span: EndedSpan, scope: &InstrumentationScope) -> SpanData {
    let state = span.trace_state.and_then(|state| TraceState::from_str(&state).ok());
    let context = SpanContext::new(
        TraceId::from(span.trace_id),
        SpanId::from(span.id),
        TraceFlags::SAMPLED,
        false,
        state.unwrap_or_default(),
    );
    let (parent, is_remote) = span.parent.unwrap_or_default();
    SpanData {
        span_context: context,
        parent_span_id: SpanId::from(parent),
        parent_span_is_remote: is_remote,
        span_kind: if span.is_client { SpanKind::Client } else { SpanKind::Server },
        name: span.name.into(),
        start_time: span.start,
        end_time: span.end,
        attributes: span.attributes.into_iter().map(|(k, v)| KeyValue::new(k, v)).collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: span.error.map_or(Status::Unset, Status::error),
        instrumentation_scope: scope.clone(),
    }
}

/// The HTTP client of the exporter. It blocks: the exporter has a thread of its own.
#[derive(Debug)]
struct CollectorClient(ureq::Agent);

#[async_trait::async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let (parts, mut body) = self.0.run(Request::from_parts(parts, &*body))?.into_parts();
        let body = body.with_config().limit(MAX_REPLY).read_to_vec()?;
        Ok(Response::from_parts(parts, body.into()))
    }
}
