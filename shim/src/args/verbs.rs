//! Verbs by name that carry an event.

use nri_control::Verb;
use std::ffi::OsStr;

/// Returns the event verb of this name.
pub(crate) fn event_verb(word: &OsStr) -> Option<Verb> {
    Some(match word.to_str()? {
        "create" => Verb::Create,
        "run" => Verb::Run,
        "restore" => Verb::Restore,
        "start" => Verb::Start,
        "update" => Verb::Update,
        "delete" => Verb::Delete,
        _ => return None,
    })
}
