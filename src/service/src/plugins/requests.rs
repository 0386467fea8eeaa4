//! [`PluginRequests`], which performs what plugins request for existing containers, on their own or
//! in replies to events: updates (`update.rs`) and evictions (`eviction.rs`). They come to it by
//! `lifecycle/container_manager.rs`, and by the commits of events.

use crate::{
    host::line_limit::LineLimit, resources::manager::ResourceManager,
    state::external_plugins::ExternalPlugins,
};
use std::sync::Arc;

/// Performs requests of plugins. Its methods must not wait for a container lock: a verb holds the
/// lock while plugins handle the event, and a plugin may request an update meanwhile.
#[derive(Debug)]
pub struct PluginRequests {
    /// The resources of the containers.
    pub resources: Arc<ResourceManager>,
    /// The plugins that connect by themselves, updated when one connects or disconnects.
    pub external: Arc<ExternalPlugins>,
    /// Log lines about connections that have not registered.
    pub unregistered_lines: LineLimit,
}

impl PluginRequests {
    /// Performs requests for the containers of this manager.
    pub fn new(resources: Arc<ResourceManager>, external: Arc<ExternalPlugins>) -> Self {
        Self { resources, external, unregistered_lines: LineLimit::default() }
    }
}
