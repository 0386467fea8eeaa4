//! The verbs that an engine calls in the life cycle of a container, in order.

/// A verb of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Create,
    Start,
    /// Updates the container. A plugin replies with an update of the neighbor, another container.
    Update,
    /// Executes a process that checks the environment variable set by a plugin.
    Exec,
    Kill,
    Delete,
    /// Calls `run --detach` with the bundle of the deleted container.
    Run,
    /// Deletes the running container with `--force`.
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

    /// Whether the wrapper starts `nrid` for this verb if no `nrid` runs.
    pub(crate) fn starts_nrid(self) -> bool {
        matches!(self, Self::Create | Self::Start | Self::Update | Self::Run)
    }
}
