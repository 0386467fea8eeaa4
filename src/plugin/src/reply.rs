//! Replies of handlers, and their form in the protocol.

use crate::{Adjustment, Mistake, Update, written::WrittenFields};
use nri_api::proto::*;
use std::collections::BTreeMap;

/// Error of a handler. The runtime receives its text.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Result of a handler.
pub type Reply<T> = Result<T, Failure>;

/// Reply to the creation of a container.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Creation {
    /// Changes of the container.
    pub adjustment: Adjustment,
    /// Updates of other containers.
    pub updates: Vec<Update>,
    /// Other containers to stop.
    pub evictions: Vec<ContainerEviction>,
}

/// Reply to the update of a container: changes of this container and of others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// Updates of this container and of other containers.
    pub updates: Vec<Update>,
    /// Containers to stop.
    pub evictions: Vec<ContainerEviction>,
}

impl From<Adjustment> for Creation {
    fn from(adjustment: Adjustment) -> Self {
        Self { adjustment, ..Self::default() }
    }
}

impl From<Update> for Changes {
    fn from(update: Update) -> Self {
        Self { updates: vec![update], ..Self::default() }
    }
}

impl Creation {
    /// Returns the message of the protocol for the creation of the container with this id.
    ///
    /// # Errors
    /// See [`Mistake`].
    pub fn build(self, container_id: &str) -> Result<CreateContainerResponse, Mistake> {
        if self.updates.iter().any(|update| update.container_id() == container_id) {
            return Err(Mistake::Created(container_id.to_owned()));
        }
        Ok(CreateContainerResponse {
            adjust: Some(self.adjustment.build()?).into(),
            update: build_updates(self.updates)?,
            evict: self.evictions,
            ..Default::default()
        })
    }
}

impl Changes {
    /// Returns the message of the protocol.
    ///
    /// # Errors
    /// See [`Mistake`].
    pub fn build(self) -> Result<UpdateContainerResponse, Mistake> {
        Ok(UpdateContainerResponse {
            update: build_updates(self.updates)?,
            evict: self.evictions,
            ..Default::default()
        })
    }
}

/// Returns the messages of updates. Several updates of one container must not write the same field:
/// the runtime would take that for a conflict.
pub(crate) fn build_updates(updates: Vec<Update>) -> Result<Vec<ContainerUpdate>, Mistake> {
    let mut containers = BTreeMap::<String, WrittenFields>::new();
    let build = |update: Update| {
        let written = containers.entry(update.container_id().to_owned()).or_default();
        written.join(update.written());
        written.check()?;
        update.build()
    };
    updates.into_iter().map(build).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SetResources;

    fn update(id: &str, change: impl FnOnce(&mut Update)) -> Update {
        let mut update = Update::new(id);
        change(&mut update);
        update
    }

    #[test]
    fn updates_of_one_container_must_not_write_a_field_twice() {
        let shares = |id| update(id, |u| _ = u.set_cpu_shares(2));
        let pids = |id| update(id, |u| _ = u.set_pids_limit(3));
        assert_eq!(build_updates(vec![shares("a"), pids("a"), shares("b")]).unwrap().len(), 3);
        let twice = Err(Mistake::Twice("cpu.shares".into()));
        assert_eq!(build_updates(vec![shares("a"), pids("a"), shares("a")]), twice);
        let changes = Changes { updates: vec![shares("a"), shares("a")], ..Default::default() };
        assert_eq!(changes.build(), Err(Mistake::Twice("cpu.shares".into())));
        assert_eq!(build_updates(vec![shares("")]), Err(Mistake::NoContainer));
    }

    #[test]
    fn the_container_that_is_being_created_is_adjusted_not_updated() {
        let creation = Creation { updates: vec![Update::new("a")], ..Default::default() };
        assert_eq!(creation.clone().build("b").unwrap().update[0].container_id, "a");
        assert_eq!(creation.build("a"), Err(Mistake::Created("a".into())));
    }
}
