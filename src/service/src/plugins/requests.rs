//! [`PluginRequests`], which performs what plugins request for existing containers, on their own or
//! in replies to events: updates (`update.rs`) and evictions (`eviction.rs`).

use crate::{
    audit::Audit, host::line_limit::LineLimit, resources::manager::ResourceManager,
    state::external_plugins::ExternalPlugins,
};
use std::sync::Arc;

/// Performs requests of plugins. Its methods must not wait for a container lock: a verb holds the
/// lock while plugins handle the event, and a plugin may request an update meanwhile.
#[derive(Debug)]
pub struct PluginRequests {
    pub(super) resources: Arc<ResourceManager>,
    /// Updated when a plugin connects or disconnects.
    pub(super) external: Arc<ExternalPlugins>,
    pub(super) audit: Audit,
    /// Log lines about connections that have not registered.
    pub(super) unregistered_lines: LineLimit,
}

impl PluginRequests {
    /// Performs requests for the containers of this manager.
    pub fn new(
        resources: Arc<ResourceManager>,
        external: Arc<ExternalPlugins>,
        audit: Audit,
    ) -> Self {
        Self { resources, external, audit, unregistered_lines: LineLimit::default() }
    }
}
