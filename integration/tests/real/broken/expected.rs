//! Expected outcome of the verbs with an event in a broken installation.

/// Configured reaction of the wrapper to a failure of NRI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    /// The default: verbs with an event are refused.
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
pub(super) enum Outcome {
    /// The verbs succeed without a warning.
    Works,
    /// The verbs succeed with a warning.
    Passes,
    /// The verbs are refused with these texts, because the wrapper cannot reach `nrid`. With
    /// `unreachable = "pass"` they succeed with a warning.
    Refused(&'static [&'static str]),
    /// `create` and `run` are refused with these texts, whatever `unreachable` is; `start` works.
    CreationsRefused(&'static [&'static str]),
    /// `create`, `run` and `update` are refused with these texts, because `nrid` cannot write their
    /// records; `start` works.
    RefusedWithoutRecord(&'static [&'static str]),
    /// All verbs, also those without an event, are refused, because the runtime is missing.
    NoRuntime,
}

impl Outcome {
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
    pub(super) fn for_verb(self, verb: &str) -> Self {
        match self {
            Self::CreationsRefused(_) | Self::RefusedWithoutRecord(_) if verb == "start" => {
                Self::Works
            }
            _ => self,
        }
    }
}
