//! Outcome of the verbs that need `nrid`, in a broken installation.

/// What is to be done when NRI does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    Default,
    Pass,
    Variable,
    File,
}

impl Policy {
    pub(super) const ALL: [Self; 4] = [Self::Default, Self::Pass, Self::Variable, Self::File];

    fn is_break_glass(self) -> bool {
        matches!(self, Self::Variable | Self::File)
    }
}

/// What becomes of `create`, `run` and `start`. `STATE` and `CONFIG` in words stand for paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needing {
    /// As if nothing was broken.
    Works,
    /// They pass, with a warning.
    Passes,
    /// `nrid` cannot be reached: refused with these words, or passed where that is configured.
    Refused(&'static [&'static str]),
    /// Refused with these words, whatever `unreachable` says.
    Always(&'static [&'static str]),
    /// The same, and `start` works.
    Creations(&'static [&'static str]),
    /// Refused with these words is what has to be kept: creations, and updates too.
    Kept(&'static [&'static str]),
    /// There is nothing that could run anything.
    NoRuntime,
}

impl Needing {
    /// What it is under a policy.
    pub(super) fn under(self, policy: Policy) -> Self {
        match self {
            Self::NoRuntime => self,
            _ if policy.is_break_glass() => Self::Works,
            Self::Refused(_) if policy == Policy::Pass => Self::Passes,
            _ => self,
        }
    }

    /// What it is for one verb.
    pub(super) fn of(self, verb: &str) -> Self {
        match self {
            Self::Creations(_) | Self::Kept(_) if verb == "start" => Self::Works,
            _ => self,
        }
    }
}
