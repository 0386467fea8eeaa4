//! Changes to a container that exists.

use crate::SetResources;
use nri_api::proto::*;

/// An update of one container; set its resources through [`SetResources`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Update(ContainerUpdate);

impl Update {
    /// An update that changes nothing yet.
    pub fn new(container_id: impl Into<String>) -> Self {
        Self(ContainerUpdate { container_id: container_id.into(), ..Default::default() })
    }

    /// Whether the request that the update is part of goes on if it fails.
    pub fn set_ignore_failure(&mut self, ignore: bool) -> &mut Self {
        self.0.ignore_failure = ignore;
        self
    }
}

/// Asks for a container to be stopped.
pub fn eviction(container_id: impl Into<String>, reason: impl Into<String>) -> ContainerEviction {
    ContainerEviction {
        container_id: container_id.into(),
        reason: reason.into(),
        ..Default::default()
    }
}

impl SetResources for Update {
    fn resources(&mut self) -> &mut LinuxResources {
        self.0.linux.mut_or_insert_default().resources.mut_or_insert_default()
    }
}

impl From<Update> for ContainerUpdate {
    fn from(update: Update) -> Self {
        update.0
    }
}
