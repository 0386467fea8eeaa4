//! [`TracedRequest`]: the trace context of a request, and its spans if they are recorded.

use crate::trace::sink::{self, EndedSpan, SpanSink};
use nri_adaptation::{CallTrace, RequestTrace, TraceContext};
use nri_api::PluginId;
use nri_files::OsText;
use std::{
    error::Error,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::SystemTime,
};

/// A request of an engine or of a plugin.
pub struct TracedRequest {
    /// Context of the peer.
    parent: OnceLock<TraceContext>,
    /// `None` if no spans are recorded.
    span: Option<RequestSpan>,
}

struct RequestSpan {
    sink: Arc<dyn SpanSink>,
    name: &'static str,
    start: SystemTime,
    /// Ids of the trace and of the span, fixed by the first use of either.
    ids: OnceLock<(u128, u64)>,
    attributes: Vec<(&'static str, String)>,
    error: Mutex<Option<String>>,
}

/// The span of a call of a plugin.
struct CallSpan {
    sink: Arc<dyn SpanSink>,
    /// What the plugin receives.
    context: Option<TraceContext>,
    span: EndedSpan,
}

impl TracedRequest {
    /// Begins a request without a context. `subject` is an attribute of its span.
    pub fn new(name: &'static str, subject: (&'static str, &str)) -> Self {
        let span = sink::sink().map(|sink| RequestSpan {
            sink,
            name,
            start: SystemTime::now(),
            ids: OnceLock::new(),
            attributes: vec![(subject.0, subject.1.to_owned())],
            error: Mutex::default(),
        });
        Self { parent: OnceLock::new(), span }
    }

    /// Begins a verb, with the context that the environment of the runtime has.
    pub fn of_verb(name: &'static str, container: &str, environment: &[OsText]) -> Self {
        let request = Self::new(name, ("container.id", container));
        request.adopt(environment.iter().filter_map(|entry| entry.0.to_str()));
        request
    }

    /// Takes the context of another environment, unless one is known. `BuildKit` sets that of the
    /// container's process.
    pub fn adopt<'a>(&self, environment: impl IntoIterator<Item = &'a str>) {
        if self.parent.get().is_none() {
            self.set_parent(TraceContext::of_environment(environment));
        }
    }

    /// Sets the context of the peer, before the first call of a plugin.
    pub fn set_parent(&self, parent: Option<TraceContext>) {
        if let Some(parent) = parent {
            let _ = self.parent.set(parent);
        }
    }

    /// Returns the span, unless the peer does not record this trace.
    fn recorded(&self) -> Option<&RequestSpan> {
        let is_sampled = || self.parent.get().is_none_or(TraceContext::is_sampled);
        self.span.as_ref().filter(|_| is_sampled())
    }

    fn ids(&self, span: &RequestSpan) -> (u128, u64) {
        *span.ids.get_or_init(|| {
            let trace = self.parent.get().map(TraceContext::trace_id);
            (trace.unwrap_or_else(|| span.sink.new_trace_id()), span.sink.new_span_id())
        })
    }

    fn trace_state(&self) -> Option<&str> {
        self.parent.get().and_then(TraceContext::tracestate)
    }

    /// Returns the context of a span of this trace.
    fn context_of(&self, trace_id: u128, id: u64) -> Option<TraceContext> {
        TraceContext::new(&format!("00-{trace_id:032x}-{id:016x}-01"), self.trace_state())
    }

    /// Ends the request. Calls of plugins may end later.
    pub fn end(&self) {
        let Some(span) = self.recorded() else { return };
        let (trace_id, id) = self.ids(span);
        let error = span.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        span.sink.record(EndedSpan {
            trace_id,
            id,
            parent: self.parent.get().map(|parent| (parent.span_id(), true)),
            trace_state: self.trace_state().map(str::to_owned),
            name: span.name,
            is_client: false,
            start: span.start,
            end: SystemTime::now(),
            attributes: span.attributes.clone(),
            error,
        });
    }
}

impl RequestTrace for TracedRequest {
    fn start_call(&self, plugin: &PluginId, method: &'static str) -> Box<dyn CallTrace> {
        let Some(span) = self.recorded() else { return Box::new(self.context()) };
        let (trace_id, request) = self.ids(span);
        let id = span.sink.new_span_id();
        let now = SystemTime::now();
        let attributes = vec![
            ("rpc.system", "ttrpc".to_owned()),
            ("rpc.method", method.to_owned()),
            ("nri.plugin", plugin.to_string()),
        ];
        let context = self.context_of(trace_id, id);
        let sink = span.sink.clone();
        let span = EndedSpan {
            trace_id,
            id,
            parent: Some((request, false)),
            trace_state: self.trace_state().map(str::to_owned),
            name: method,
            is_client: true,
            start: now,
            end: now,
            attributes,
            error: None,
        };
        Box::new(CallSpan { sink, context, span })
    }

    fn context(&self) -> Option<TraceContext> {
        match self.recorded() {
            Some(span) => {
                let (trace_id, id) = self.ids(span);
                self.context_of(trace_id, id)
            }
            None => self.parent.get().cloned(),
        }
    }

    fn fail(&self, error: &str) {
        if let Some(span) = &self.span {
            *span.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_owned());
        }
    }
}

impl CallTrace for CallSpan {
    fn context(&self) -> Option<&TraceContext> {
        self.context.as_ref()
    }

    fn end(self: Box<Self>, error: Option<&dyn Error>) {
        let Self { sink, mut span, .. } = *self;
        span.end = SystemTime::now();
        span.error = error.map(ToString::to_string);
        sink.record(span);
    }
}
