//! Verbs of the low-level runtimes, and what the wrapper does about those with an event.

use crate::flags::{CREATE, DELETE, RESTORE, RUN, START, UPDATE, Verbs};
use serde::{Deserialize, Serialize};

/// The verbs of runc, crun and youki without an event. The names distinguish a verb from the value
/// of an unknown flag.
const WITHOUT_EVENT: [&str; 14] = [
    "checkpoint",
    "events",
    "exec",
    "features",
    "help",
    "info",
    "kill",
    "list",
    "mounts",
    "pause",
    "ps",
    "resume",
    "spec",
    "state",
];

/// A verb for which plugins receive an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// `create`
    Create,
    /// `run`: the wrapper becomes the runtime after the reply, and the hook reports later events.
    Run,
    /// `restore`: as `run`.
    Restore,
    /// `start`
    Start,
    /// `update`
    Update,
    /// `delete`
    Delete,
}

impl Verb {
    /// All verbs with an event.
    pub const ALL: [Self; 6] =
        [Self::Create, Self::Run, Self::Restore, Self::Start, Self::Update, Self::Delete];

    /// Returns the verb of this name, if it has an event.
    pub fn of(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.name().as_bytes() == name)
    }

    /// Returns the name, as on the command line of a runtime.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Run => "run",
            Self::Restore => "restore",
            Self::Start => "start",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    /// Returns the set of flags of this verb.
    pub const fn flags(self) -> Verbs {
        match self {
            Self::Create => CREATE,
            Self::Run => RUN,
            Self::Restore => RESTORE,
            Self::Start => START,
            Self::Update => UPDATE,
            Self::Delete => DELETE,
        }
    }

    /// Whether the verb names a bundle, of which `nrid` may make an adjusted copy.
    pub const fn has_bundle(self) -> bool {
        matches!(self, Self::Create | Self::Run | Self::Restore)
    }

    /// Whether the verb starts `nrid`, and obeys the key `unreachable` if the start fails, or if
    /// `nrid` hangs or does not reply as expected. All other verbs proceed without it; an `update`
    /// first tries to start `nrid` if a previous one has left records, and obeys the key if an
    /// `nrid` that is alive does not reply in time.
    pub const fn needs_nrid(self) -> bool {
        self.has_bundle() || matches!(self, Self::Start)
    }

    /// Whether the real runtime replaces this process (`execve`); a hook then reports later events.
    pub const fn execs(self) -> bool {
        matches!(self, Self::Run | Self::Restore)
    }

    /// Whether the wrapper can become the runtime, so that `nrid` follows its process.
    pub const fn is_followed(self) -> bool {
        matches!(self, Self::Start | Self::Delete)
    }

    /// Whether the verb proceeds even if `nrid` refuses: a container must always be removable.
    pub const fn ignores_refusal(self) -> bool {
        matches!(self, Self::Delete)
    }
}

/// Whether any runtime has a verb of this name.
pub fn is_known(word: &[u8]) -> bool {
    Verb::of(word).is_some() || WITHOUT_EVENT.iter().any(|name| name.as_bytes() == word)
}
