//! Status of a container. Start from [`ContainerStatus`], the status that plugins know, and
//! [`RuntimeProgress`], the progress of the low-level runtime. The two may differ: plugins regard a
//! container that the runtime has deleted as running until they are notified.

use nri_api::proto::ContainerState;
use serde::{Deserialize, Serialize};

/// A container's status as plugins know it.
///
/// Changes are made by `lifecycle::transition`, by recovery before plugins connect, and by
/// snapshots, for a `run` without our hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContainerStatus {
    /// Plugins have agreed to the creation, and the runtime has not reported it yet.
    Creating,
    /// The runtime has created the container.
    Created,
    /// Plugins have agreed to the start. Not on disk: if the start is repeated after a restart of
    /// `nrid`, plugins receive the request again.
    #[serde(skip)]
    Starting,
    /// The first process runs.
    Running,
    /// The first process has ended, and plugins are notified.
    Stopped,
}

impl ContainerStatus {
    /// Returns the name of the status in records and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Created | Self::Starting => "created",
            Self::Running => "running",
            Self::Stopped => "stopped",
        }
    }

    /// Returns the status in messages to plugins; a paused container has status `Running` here.
    pub fn to_nri(self) -> ContainerState {
        match self {
            Self::Creating | Self::Created | Self::Starting => ContainerState::CONTAINER_CREATED,
            Self::Running => ContainerState::CONTAINER_RUNNING,
            Self::Stopped => ContainerState::CONTAINER_STOPPED,
        }
    }
}

impl Serialize for ContainerStatus {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Progress of the low-level runtime with a container, as far as it is known; in memory only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuntimeProgress {
    /// Nothing is known.
    #[default]
    Unknown,
    /// The runtime has created a directory for the container.
    Present,
    /// The runtime has deleted the container.
    Deleted,
}
