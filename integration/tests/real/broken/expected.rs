//! Outcome of the verbs that need `nrid`, in a broken installation.

/// How the installation is set up to treat a failure of NRI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    /// Refuse.
    Default,
    /// `unreachable = "pass"`: continue without NRI.
    Pass,
    /// Break-glass by the environment variable.
    Variable,
    /// Break-glass by the file.
    File,
}

impl Policy {
    pub(super) const ALL: [Self; 4] = [Self::Default, Self::Pass, Self::Variable, Self::File];

    fn is_break_glass(self) -> bool {
        matches!(self, Self::Variable | Self::File)
    }
}

/// Expected outcome of `create`, `run` and `start`. In the expected texts `STATE` and `CONFIG` are
/// replaced by paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needing {
    /// They succeed without a warning.
    Works,
    /// They succeed with a warning.
    Passes,
    /// They are refused with these texts, for `nrid` cannot be reached; with `unreachable = "pass"`
    /// they succeed with a warning.
    Refused(&'static [&'static str]),
    /// They are refused with these texts, whatever `unreachable` is.
    Always(&'static [&'static str]),
    /// `create` and `run` are refused with these texts, whatever `unreachable` is; `start` works.
    Creations(&'static [&'static str]),
    /// `create`, `run` and `update` are refused with these texts, for their records cannot be
    /// written; `start` works.
    Recorded(&'static [&'static str]),
    /// All verbs are refused, for the runtime is missing.
    NoRuntime,
}

impl Needing {
    /// Returns the outcome under a policy.
    pub(super) fn under(self, policy: Policy) -> Self {
        match self {
            Self::NoRuntime => self,
            _ if policy.is_break_glass() => Self::Works,
            Self::Refused(_) if policy == Policy::Pass => Self::Passes,
            _ => self,
        }
    }

    /// Returns the outcome of one verb.
    pub(super) fn of(self, verb: &str) -> Self {
        match self {
            Self::Creations(_) | Self::Recorded(_) if verb == "start" => Self::Works,
            _ => self,
        }
    }
}
