//! The verbs that carry events, and what each of them allows.

use nri_control::Verb;
use std::ffi::OsStr;

/// Every verb of runc, crun and youki: needed only to tell a verb from the value of an option that
/// we do not know.
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

/// The event verb of this name.
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

/// What a verb allows.
pub(crate) trait Policy {
    /// Has a bundle whose document may be rewritten.
    fn has_bundle(self) -> bool;
    /// Starts `nrid`, and obeys the key `unreachable` when that fails. The others concern what an
    /// `nrid` knows: where none runs and none has kept records they pass.
    fn needs_nrid(self) -> bool;
    /// Replaces this process: a hook reports what follows.
    fn execs(self) -> bool;
    /// Goes on even if `nrid` refuses: what exists must always be removable.
    fn ignores_refusal(self) -> bool;
}

impl Policy for Verb {
    fn has_bundle(self) -> bool {
        matches!(self, Self::Create | Self::Run | Self::Restore)
    }

    fn needs_nrid(self) -> bool {
        self.has_bundle() || self == Self::Start
    }

    fn execs(self) -> bool {
        matches!(self, Self::Run | Self::Restore)
    }

    fn ignores_refusal(self) -> bool {
        self == Self::Delete
    }
}
