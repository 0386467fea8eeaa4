//! Verbs by name: those that carry an event, and all verbs of the low-level runtimes.

use nri_control::Verb;
use std::ffi::OsStr;

/// Every verb of runc, crun and youki, to distinguish a verb from the value of an unknown flag.
const KNOWN: [&str; 20] = [
    "checkpoint",
    "create",
    "delete",
    "events",
    "exec",
    "features",
    "info",
    "kill",
    "list",
    "mounts",
    "pause",
    "ps",
    "restore",
    "resume",
    "run",
    "spec",
    "start",
    "state",
    "update",
    "help",
];

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

/// Whether any runtime has a verb of this name.
pub(crate) fn is_known(word: &OsStr) -> bool {
    word.to_str().is_some_and(|w| KNOWN.contains(&w))
}
