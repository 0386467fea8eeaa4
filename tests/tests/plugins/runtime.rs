//! The runtime's side of a session with a plugin.

use async_trait::async_trait;
use nri_api::{EventMask, NRI_VERSION, proto::*};
use nri_wire::{Context, PluginClient, Runtime, RuntimeEnd, ttrpc};
use std::{sync::Arc, time::Duration};
use tokio::{
    net::UnixStream,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

/// Time limit of each call: long, so that no call times out on a loaded machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// A runtime that admits each plugin, and carries out each of its updates.
struct AdmittingRuntime(UnboundedSender<RegisterPluginRequest>);

#[async_trait]
impl Runtime for AdmittingRuntime {
    async fn register_plugin(
        &self,
        _: &Context,
        request: RegisterPluginRequest,
    ) -> ttrpc::Result<Empty> {
        self.0.send(request).ok();
        Ok(Empty::new())
    }

    async fn update_containers(
        &self,
        _: &Context,
        _: UpdateContainersRequest,
    ) -> ttrpc::Result<UpdateContainersResponse> {
        Ok(UpdateContainersResponse::new())
    }
}

/// A session with a plugin that is registered, configured and synchronized.
pub(crate) struct PluginSession {
    end: RuntimeEnd,
    pub(crate) index: String,
    pub(crate) events: EventMask,
}

impl PluginSession {
    /// Opens the session on a plugin's connection.
    pub(crate) async fn open(stream: UnixStream, config: &str) -> Self {
        let (sender, receiver) = unbounded_channel();
        let end = RuntimeEnd::new(stream, Arc::new(AdmittingRuntime(sender))).await.unwrap();
        let index = registered(receiver).await.plugin_idx;
        let request = ConfigureRequest {
            config: config.to_owned(),
            runtime_name: "comparison".to_owned(),
            runtime_version: "1".to_owned(),
            registration_timeout: 5000,
            request_timeout: 2000,
            NRI_version: NRI_VERSION.to_owned(),
            ..Default::default()
        };
        let reply = end.plugin().configure(TIMEOUT, &request).await.unwrap();
        let events = EventMask::from_subscription(reply.events).unwrap();
        end.plugin().synchronize(TIMEOUT, &SynchronizeRequest::new()).await.unwrap();
        Self { end, index, events }
    }

    pub(crate) fn plugin(&self) -> &PluginClient {
        self.end.plugin()
    }
}

async fn registered(
    mut requests: UnboundedReceiver<RegisterPluginRequest>,
) -> RegisterPluginRequest {
    let request = tokio::time::timeout(TIMEOUT, requests.recv()).await;
    request.expect("the plugin registers").unwrap()
}
