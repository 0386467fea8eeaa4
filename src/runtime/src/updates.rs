//! Updates and evictions that plugins request, performed by the runtime's handler.

use nri_adaptation::UpdatesOutcome;
use nri_api::PluginId;
use nri_api::proto::{ContainerEviction, ContainerUpdate, LinuxResources};
use nri_spec::{merge_blockio_class, merge_resources};
use serde_json::{Value, json};

use crate::error::Error;
use crate::handler::with_facts;
use crate::nri::Shared;

impl Shared {
    /// Performs what plugins request in an event that they can refuse.
    ///
    /// # Errors
    /// An update without `ignore_failure`, or an eviction, failed. The others are performed.
    pub(crate) async fn perform_of_event(
        &self,
        updates: &[ContainerUpdate],
        evictions: &[ContainerEviction],
    ) -> Result<(), Error> {
        let mut failed = None;
        for update in updates {
            if let Err(error) = self.update(update).await {
                tracing::warn!("{error}");
                if !update.ignore_failure {
                    failed.get_or_insert(error);
                }
            }
        }
        for eviction in evictions {
            if let Err(error) = self.evict(eviction).await {
                tracing::warn!("{error}");
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Performs the updates that plugins request when a container stops, which does not fail.
    pub(crate) async fn perform_of_stop(&self, outcome: UpdatesOutcome) {
        // Failures are logged there, and a stop cannot fail.
        let _ = self.perform_of_event(&outcome.updates, &outcome.evictions).await;
    }

    /// Performs what a plugin requests outside of events. Returns the updates that failed.
    pub(crate) async fn perform_requests(
        &self,
        plugin: &PluginId,
        updates: Vec<ContainerUpdate>,
        evictions: Vec<ContainerEviction>,
    ) -> Vec<ContainerUpdate> {
        let mut failed = Vec::new();
        for update in updates {
            if let Err(error) = self.update(&update).await {
                tracing::warn!(%plugin, "{error}");
                failed.push(update);
            }
        }
        for eviction in evictions {
            if let Err(error) = self.evict(&eviction).await {
                tracing::warn!(%plugin, "{error}");
            }
        }
        failed
    }

    async fn update(&self, update: &ContainerUpdate) -> Result<(), Error> {
        let id = &update.container_id;
        self.records.container(id)?;
        let resources = update.linux.resources.get_or_default();
        let oci = self.to_oci(id, json!({}), resources)?;
        let updated = self.handler.update_container(id, &oci).await;
        updated.map_err(performed("update", id))?;
        // The container may have been removed meanwhile; then there is nothing to record.
        let _ = self.records.overlay(id, resources);
        Ok(())
    }

    async fn evict(&self, eviction: &ContainerEviction) -> Result<(), Error> {
        let id = &eviction.container_id;
        self.records.container(id)?;
        let evicted = self.handler.evict_container(id, &eviction.reason).await;
        evicted.map_err(performed("eviction", id))
    }

    /// Adds resources of the protocol to `linux.resources` of an OCI config.
    pub(crate) fn to_oci(
        &self,
        id: &str,
        mut base: Value,
        resources: &LinuxResources,
    ) -> Result<Value, Error> {
        merge_resources(&mut base, resources);
        if let Some(class) = resources.blockio_class.as_ref() {
            let merged = with_facts(&*self.handler, |facts| {
                merge_blockio_class(&mut base, &class.value, facts)
            });
            merged.map_err(|source| Error::Adjustment {
                container: id.to_owned(),
                plugins: Vec::new(),
                source,
            })?;
        }
        if resources.rdt_class.is_some() {
            let source = "no runtime changes the RDT class of a container that exists".into();
            return Err(performed("update", id)(source));
        }
        Ok(base)
    }
}

/// Returns the conversion of a handler's error.
fn performed(
    what: &'static str,
    id: &str,
) -> impl FnOnce(Box<dyn std::error::Error + Send + Sync>) -> Error {
    let container = id.to_owned();
    move |source| Error::Performed { what, container, source }
}
