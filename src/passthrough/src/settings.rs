//! What a call needs of the configuration: entries `KEY=value`, each with a final NUL. `nri-locate`
//! makes them from the configuration; [`crate::published`] reads those that `nrid` has published.

use crate::{environment, json::ByteSink};
use core::time::Duration;

/// The state directory, absolute.
pub const STATE_DIR: &str = "state_dir";
/// `1` if NRI is disabled.
pub const DISABLED: &str = "disabled";
/// `1` if verbs proceed where `nrid` cannot be reached.
pub const PASS_UNREACHABLE: &str = "pass_unreachable";
/// Time limit of a start of `nrid`, in milliseconds.
pub const START_TIMEOUT: &str = "start_timeout";
/// Longest time limit of a request to a plugin, in milliseconds.
pub const REQUEST_TIMEOUT: &str = "request_timeout";
/// The real runtime, if the configuration names one: an absolute path, or a name.
pub const RUNTIME: &str = "runtime";
/// A runtime to try if none is named, for each of them in order.
pub const CANDIDATE: &str = "candidate";
/// A runtime for calls by a name: the name, a slash, and the path or name of the runtime.
pub const NAMED_RUNTIME: &str = "named_runtime";

/// CallSettings of a call.
#[derive(Debug, Clone, Copy)]
pub struct CallSettings<'a>(&'a [u8]);

impl<'a> CallSettings<'a> {
    /// Reads settings that [`put`] has written.
    pub fn new(entries: &'a [u8]) -> Self {
        Self(entries)
    }

    /// The state directory, absolute.
    pub fn state_dir(&self) -> &'a [u8] {
        self.first(STATE_DIR).unwrap_or_default()
    }

    /// Whether NRI is disabled.
    pub fn is_disabled(&self) -> bool {
        self.first(DISABLED).is_some()
    }

    /// Whether verbs proceed where `nrid` cannot be reached.
    pub fn passes_unreachable(&self) -> bool {
        self.first(PASS_UNREACHABLE).is_some()
    }

    /// Time limit of a start of `nrid`.
    pub fn start_timeout(&self) -> Duration {
        self.milliseconds(START_TIMEOUT)
    }

    /// Longest time limit of a request to a plugin.
    pub fn request_timeout(&self) -> Duration {
        self.milliseconds(REQUEST_TIMEOUT)
    }

    /// The real runtime, if the configuration names one.
    pub(crate) fn runtime(&self) -> Option<&'a [u8]> {
        self.first(RUNTIME)
    }

    /// The real runtime for calls by this name, if the configuration names one.
    pub(crate) fn runtime_of(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.all(NAMED_RUNTIME).find_map(|value| value.strip_prefix(name)?.strip_prefix(b"/"))
    }

    /// The runtimes to try if none is named.
    pub fn candidates(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.all(CANDIDATE)
    }

    pub(crate) fn first(&self, key: &str) -> Option<&'a [u8]> {
        environment::first(self.0.split(|byte| *byte == 0), key)
    }

    fn all(&self, key: &'static str) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.0.split(|byte| *byte == 0).filter_map(move |entry| environment::value(entry, key))
    }

    fn milliseconds(&self, key: &str) -> Duration {
        let text = self.first(key).and_then(|text| core::str::from_utf8(text).ok());
        Duration::from_millis(text.and_then(|text| text.parse().ok()).unwrap_or_default())
    }
}

/// Appends an entry, whose value is made of parts. Returns `None` if it does not fit, or if a part
/// has a NUL.
pub fn put(sink: &mut impl ByteSink, key: &str, parts: &[&[u8]]) -> Option<()> {
    if parts.iter().any(|part| part.contains(&0)) {
        return None;
    }
    sink.put(key.as_bytes())?;
    sink.put(b"=")?;
    parts.iter().try_for_each(|part| sink.put(part))?;
    sink.put(b"\0")
}
