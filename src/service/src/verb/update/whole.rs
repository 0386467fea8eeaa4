//! Whether the resources of an update are all resources of the container, or those that the engine
//! wants to change.
//!
//! Docker, CRI-O and Podman 4 send the fields that were given: each is a request, also one with the
//! value that the engine requested before. CRI of containerd, nerdctl and Podman 5 send the
//! container's whole resources again, with the changed fields in them: only values that differ from
//! the engine's last ones are requests.

use crate::state::record::Record;
use nri_engine::EngineKind;
use serde_json::Value;

/// Whether `document` repeats all resources. Then it has device rules, which no command of an
/// engine updates. Rootless containers of Podman have none, but whatever else was requested.
pub(super) fn is_whole(document: &Value, record: &Record) -> bool {
    let is_podman = record.engine.name == EngineKind::Podman.name();
    document.get("devices").is_some_and(|devices| !devices.is_null())
        || is_podman && has_fields(document, &record.requested)
}

/// Whether `document` has all fields of `requested`.
fn has_fields(document: &Value, requested: &Value) -> bool {
    let is_empty =
        |value: &Value| value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
    let mut fields = requested.as_object().into_iter().flatten();
    fields.all(|(key, value)| {
        is_empty(value) || document.get(key).is_some_and(|found| has_fields(found, value))
    })
}
