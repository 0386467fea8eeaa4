//! Update of an existing container.

use crate::SetResources;
use nri_api::proto::*;

/// Update of one container. The methods of [`SetResources`] set its resources.
///
/// ```
/// use nri_plugin::{SetResources, Update};
///
/// let mut update = Update::new("0123abcd");
/// update.set_cpu_cpus("0-3").set_memory_limit(512 << 20);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Update(ContainerUpdate);

impl Update {
    /// Creates an update without changes.
    pub fn new(container_id: impl Into<String>) -> Self {
        Self(ContainerUpdate { container_id: container_id.into(), ..Default::default() })
    }

    /// Sets whether the request continues if this update fails.
    pub fn set_ignore_failure(&mut self, ignore: bool) -> &mut Self {
        self.0.ignore_failure = ignore;
        self
    }
}

/// Returns a request to stop a container. The reason is logged.
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
