//! Updates and evictions that a plugin requests without effect, because its policy observes it or
//! because their containers are outside the scope of the policy.

use crate::policy::permissions::{DenialReason, PermissionDenied};
use crate::policy::plugin_policy::PluginPolicy;
use nri_api::PluginId;
use nri_api::proto::{ContainerEviction, ContainerUpdate, UpdateContainerResponse};

/// The parts of a reply that have no effect.
#[derive(Debug, Default)]
pub(crate) struct Withheld {
    pub(crate) updates: Vec<ContainerUpdate>,
    pub(crate) evictions: Vec<ContainerEviction>,
}

impl Withheld {
    pub(crate) fn is_empty(&self) -> bool {
        self.updates.is_empty() && self.evictions.is_empty()
    }

    /// Returns the reply to an update that these are parts of.
    pub(crate) fn into_update_reply(self) -> UpdateContainerResponse {
        let Self { updates: update, evictions: evict } = self;
        UpdateContainerResponse { update, evict, ..Default::default() }
    }

    /// Returns the refusal of a reply that depends on an update which is withheld.
    pub(crate) fn denied(
        &self,
        plugin: &PluginId,
        policy: &PluginPolicy,
    ) -> Result<(), PermissionDenied> {
        match self.updates.iter().find(|update| !update.ignore_failure) {
            None => Ok(()),
            Some(ContainerUpdate { container_id: id, .. }) => Err(PermissionDenied {
                plugin: plugin.clone(),
                what: format!("update other containers ({id})"),
                container: id.clone(),
                why: DenialReason::OutsideScope { policy: policy.plugin.clone() },
            }),
        }
    }
}
