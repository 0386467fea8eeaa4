//! Update of an existing container.

use crate::{Mistake, resources::HasResources, written::WrittenFields};
use nri_api::proto::*;

/// Update of one container. The methods of [`SetResources`](crate::SetResources) set its resources.
///
/// ```
/// use nri_plugin::{SetResources, Update};
///
/// let mut update = Update::new("0123abcd");
/// update.set_cpu_cpus("0-3").set_memory_limit(512 << 20);
/// ```
///
/// A field that is written twice is a [`Mistake`]: [`build`](Self::build) refuses it, and so does
/// the SDK when a handler replies with the update.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    message: ContainerUpdate,
    written: WrittenFields,
}

impl Update {
    /// Creates an update without changes.
    pub fn new(container_id: impl Into<String>) -> Self {
        let message = ContainerUpdate { container_id: container_id.into(), ..Default::default() };
        Self { message, written: WrittenFields::default() }
    }

    /// Sets whether the request continues if this update fails.
    pub fn set_ignore_failure(&mut self, ignore: bool) -> &mut Self {
        self.message.ignore_failure = ignore;
        self
    }

    /// Returns the id of the container.
    pub fn container_id(&self) -> &str {
        &self.message.container_id
    }

    /// Returns the message of the protocol.
    ///
    /// # Errors
    /// See [`Mistake`].
    pub fn build(self) -> Result<ContainerUpdate, Mistake> {
        self.written.check()?;
        if self.message.container_id.is_empty() {
            return Err(Mistake::NoContainer);
        }
        Ok(self.message)
    }

    pub(crate) fn written(&self) -> &WrittenFields {
        &self.written
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

impl HasResources for Update {
    fn parts(&mut self) -> (&mut LinuxResources, &mut WrittenFields) {
        let linux = self.message.linux.mut_or_insert_default();
        (linux.resources.mut_or_insert_default(), &mut self.written)
    }
}
