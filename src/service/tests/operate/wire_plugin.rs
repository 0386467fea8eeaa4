//! A plugin in the process of a test, whose only event is a function of the test.

use crate::node::{Node, wait_until};
use async_trait::async_trait;
use nri_api::{EventMask, proto::*};
use nri_wire::{Context, Plugin, PluginEnd, ttrpc};
use std::sync::Arc;

/// A plugin that replies to `CreateContainer` with the updates that the function returns for the
/// id of the container.
pub(crate) struct UpdatesAtCreation<F>(pub(crate) F);

#[async_trait]
impl<F: Fn(&str) -> Vec<ContainerUpdate> + Send + Sync> Plugin for UpdatesAtCreation<F> {
    async fn configure(
        &self,
        _: &Context,
        _: ConfigureRequest,
    ) -> ttrpc::Result<ConfigureResponse> {
        let events = EventMask::NONE.with(Event::CREATE_CONTAINER).bits();
        Ok(ConfigureResponse { events, ..Default::default() })
    }

    async fn synchronize(
        &self,
        _: &Context,
        _: SynchronizeRequest,
    ) -> ttrpc::Result<SynchronizeResponse> {
        Ok(SynchronizeResponse::new())
    }

    async fn create_container(
        &self,
        _: &Context,
        request: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        let update = (self.0)(&request.container.id);
        Ok(CreateContainerResponse { update, ..Default::default() })
    }

    async fn state_change(&self, _: &Context, _: StateChangeEvent) -> ttrpc::Result<Empty> {
        Ok(Empty::new())
    }
}

/// Connects a plugin and registers it as `10-test`.
pub(crate) async fn connect(node: &Node, plugin: Arc<dyn Plugin + Send + Sync>) -> Arc<PluginEnd> {
    let socket = node.state_dir().join("nri.sock");
    let stream = tokio::net::UnixStream::connect(socket).await.unwrap();
    let plugin = PluginEnd::new(stream, plugin).await.unwrap();
    let registration = RegisterPluginRequest {
        plugin_name: "test".into(),
        plugin_idx: "10".into(),
        ..Default::default()
    };
    plugin.runtime().register_plugin(None, &registration).await.unwrap();
    Arc::new(plugin)
}

/// Waits until the plugin is active. Blocks the thread.
pub(crate) fn wait_until_active(node: &Node) {
    wait_until("the plugin", || {
        node.status().plugins.iter().any(|p| p.state == "active").then_some(())
    });
}
