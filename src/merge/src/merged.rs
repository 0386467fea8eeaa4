//! State of the merge of a creation: the container, and its adjustment so far.

use nri_api::proto::{Container, ContainerAdjustment, LinuxContainer, LinuxContainerAdjustment};

/// The container before and after the adjustments so far, and their merged adjustment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Merged {
    /// The container as the engine requested it.
    pub(crate) pristine: Container,
    /// The container with `adjust` applied.
    pub(crate) container: Container,
    pub(crate) adjust: ContainerAdjustment,
}

impl Merged {
    pub(crate) fn new(container: Container) -> Self {
        Self { pristine: container.clone(), container, adjust: ContainerAdjustment::new() }
    }

    /// Returns the Linux parts of the container and of the adjustment.
    pub(crate) fn linux(&mut self) -> (&mut LinuxContainer, &mut LinuxContainerAdjustment) {
        (self.container.linux.mut_or_insert_default(), self.adjust.linux.mut_or_insert_default())
    }
}
