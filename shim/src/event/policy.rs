//! Properties of each verb with an event: whether it needs `nrid`, and whether it can be refused.

use nri_control::Verb;

/// Properties of a verb that decide how it is handled.
pub(crate) trait VerbPolicy {
    /// Whether the verb names a bundle, whose `config.json` may be rewritten.
    fn has_bundle(self) -> bool;
    /// Whether the verb starts `nrid`, and obeys the key `unreachable` if the start fails. If no
    /// `nrid` runs, all other verbs proceed without it; an `update` first tries to start `nrid` if
    /// a previous `nrid` has left records.
    fn needs_nrid(self) -> bool;
    /// Whether the real runtime replaces this process (`execve`); a hook then reports later events.
    fn execs(self) -> bool;
    /// Whether the verb proceeds even if `nrid` refuses: a container must always be removable.
    fn ignores_refusal(self) -> bool;
}

impl VerbPolicy for Verb {
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
