//! Names of the verbs that carry an event.

use nri_control::Verb;
use std::ffi::OsStr;

/// Returns the verb of this name, if it carries an event.
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
