//! The verbs that an engine calls in the life cycle of a container, in order.

/// A verb of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Create,
    Start,
    /// A plugin answers with an update of the neighbour.
    Update,
    /// It sees what a plugin has added.
    Exec,
    Kill,
    Delete,
    /// Once more, detached.
    Run,
    /// As it runs.
    Remove,
}

impl Step {
    pub(crate) const ALL: [Self; 8] = [
        Self::Create,
        Self::Start,
        Self::Update,
        Self::Exec,
        Self::Kill,
        Self::Delete,
        Self::Run,
        Self::Remove,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Start => "start",
            Self::Update => "update",
            Self::Exec => "exec",
            Self::Kill => "kill",
            Self::Delete => "delete",
            Self::Run => "run",
            Self::Remove => "remove",
        }
    }

    /// Whether its wrapper starts an `nrid` where there is none.
    pub(crate) fn brings_nrid(self) -> bool {
        matches!(self, Self::Create | Self::Start | Self::Update | Self::Run)
    }
}
