//! Trace context of a request: the fields of the W3C Trace Context, as metadata of ttrpc.

use crate::rpc::size::field_size;
use protobuf::CodedOutputStream;
use std::collections::HashMap;

/// Names of the metadata.
const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// Maximum length of a `tracestate` that is passed on; the standard asks for at least 512.
const MAX_TRACESTATE: usize = 512;

/// Tag of the metadata of ttrpc's `Request`, and those of a `KeyValue`: field number and wire type.
const METADATA: u32 = 5 << 3 | 2;
const KEY: u32 = 1 << 3 | 2;
const VALUE: u32 = 2 << 3 | 2;

/// A valid trace context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    traceparent: String,
    /// Empty if there is none.
    tracestate: String,
}

impl TraceContext {
    /// Checks the fields. A `tracestate` that is invalid or too long is dropped, as the standard
    /// permits; `None` if `traceparent` is invalid.
    pub fn new(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let traceparent = traceparent.trim();
        if !is_traceparent(traceparent) {
            return None;
        }
        let is_printable = |text: &&str| text.bytes().all(|b| (b' '..=b'~').contains(&b));
        let tracestate = tracestate
            .map(str::trim)
            .filter(|text| text.len() <= MAX_TRACESTATE)
            .filter(is_printable);
        let tracestate = tracestate.unwrap_or_default().to_owned();
        Some(Self { traceparent: traceparent.to_owned(), tracestate })
    }

    /// Returns the context of an environment: `TRACEPARENT` and `TRACESTATE`.
    pub fn of_environment<'a>(entries: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let (mut traceparent, mut tracestate) = (None, None);
        for entry in entries {
            match entry.split_once('=') {
                Some(("TRACEPARENT", value)) => traceparent = Some(value),
                Some(("TRACESTATE", value)) => tracestate = Some(value),
                _ => {}
            }
        }
        Self::new(traceparent?, tracestate)
    }

    /// Returns the context of a request's metadata.
    pub fn of_metadata(metadata: &HashMap<String, Vec<String>>) -> Option<Self> {
        let first = |name: &str| metadata.get(name).and_then(|values| values.first());
        Self::new(first(TRACEPARENT)?, first(TRACESTATE).map(String::as_str))
    }

    /// Returns `VERSION-TRACE-SPAN-FLAGS`.
    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    /// Returns the state of tracing systems, if there is any.
    pub fn tracestate(&self) -> Option<&str> {
        Some(self.tracestate.as_str()).filter(|text| !text.is_empty())
    }

    fn entries(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let state = self.tracestate().map(|state| (TRACESTATE, state));
        std::iter::once((TRACEPARENT, self.traceparent.as_str())).chain(state)
    }

    /// Size of the metadata in a ttrpc request.
    pub(crate) fn size(&self) -> usize {
        let entry = |(key, value): (&str, &str)| field_size(key.len()) + field_size(value.len());
        self.entries().map(|pair| field_size(entry(pair))).sum()
    }

    /// Writes the metadata of a ttrpc request.
    pub(crate) fn write(&self, out: &mut CodedOutputStream<'_>) -> protobuf::Result<()> {
        for (key, value) in self.entries() {
            let size = field_size(key.len()) + field_size(value.len());
            out.write_raw_varint32(METADATA)?;
            out.write_raw_varint64(size as u64)?;
            out.write_raw_varint32(KEY)?;
            out.write_string_no_tag(key)?;
            out.write_raw_varint32(VALUE)?;
            out.write_string_no_tag(value)?;
        }
        Ok(())
    }
}

/// Whether a text is a valid `traceparent`. Later versions than 00 may have further fields.
fn is_traceparent(text: &str) -> bool {
    let mut fields = text.split('-');
    let mut is_hex = |length: usize| {
        fields.next().filter(|field| {
            let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
            field.len() == length && field.bytes().all(is_digit)
        })
    };
    let (version, trace, span, flags) = (is_hex(2), is_hex(32), is_hex(16), is_hex(2));
    let is_set = |field: Option<&str>| field.is_some_and(|f| f.bytes().any(|b| b != b'0'));
    let is_known =
        version.is_some_and(|v| v != "ff") && (version != Some("00") || text.len() == 55);
    let is_printable = text.bytes().all(|b| b.is_ascii_graphic());
    is_known
        && is_printable
        && text.len() <= 256
        && is_set(trace)
        && is_set(span)
        && flags.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn only_valid_contexts_are_taken() {
        let found = TraceContext::new(PARENT, Some("a=1,b=2")).unwrap();
        assert_eq!((found.traceparent(), found.tracestate()), (PARENT, Some("a=1,b=2")));
        assert!(TraceContext::new(&PARENT.replacen("00", "01", 1), None).is_some());
        assert!(
            TraceContext::new(&format!("{}-x", PARENT.replacen("00", "01", 1)), None).is_some()
        );
        for wrong in [
            "",
            "00",
            &PARENT.to_uppercase(),
            &PARENT[..54],
            &format!("{PARENT}-x"),
            &PARENT.replacen("00", "ff", 1),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            &format!("01{}-\u{1b}x", &PARENT[2..]),
        ] {
            assert_eq!(TraceContext::new(wrong, None), None, "{wrong}");
        }
        for dropped in ["x".repeat(513), "a=\u{1b}".to_owned(), String::new()] {
            let found = TraceContext::new(PARENT, Some(&dropped)).unwrap();
            assert_eq!(found.tracestate(), None);
        }
    }

    #[test]
    fn contexts_are_found_in_environments_and_metadata() {
        let parent = format!("TRACEPARENT={PARENT}");
        let found = TraceContext::of_environment(["A=1", &parent, "TRACESTATE=a=b"]).unwrap();
        assert_eq!((found.traceparent(), found.tracestate()), (PARENT, Some("a=b")));
        assert_eq!(TraceContext::of_environment(["TRACESTATE=a=b", "TRACEPARENT"]), None);
        let metadata = found.entries().map(|(key, value)| (key.to_owned(), vec![value.to_owned()]));
        assert_eq!(TraceContext::of_metadata(&metadata.collect()), Some(found));
        assert_eq!(TraceContext::of_metadata(&HashMap::new()), None);
    }
}
