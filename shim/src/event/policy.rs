//! Properties of each verb with an event: whether it needs `nrid`, and whether it can be refused.

use nri_control::Verb;

/// Properties of a verb that decide how it is handled.
pub(crate) trait VerbPolicy {
    /// The verb names a bundle, whose `config.json` may be rewritten.
    fn has_bundle(self) -> bool;
    /// The verb starts `nrid`, and obeys the key `unreachable` if that fails. Other verbs concern
    /// containers that an `nrid` knows: if none runs and none has left records, they proceed
    /// without it.
    fn needs_nrid(self) -> bool;
    /// The real runtime replaces this process, and a hook reports later events.
    fn execs(self) -> bool;
    /// The verb proceeds although `nrid` refuses: a container must always be removable.
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
