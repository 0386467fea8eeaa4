//! A minimal NRI runtime for tests of plugins.
#![allow(dead_code, unreachable_pub)] // each test uses a part of these
#![allow(clippy::unwrap_used)]

use async_trait::async_trait;
use nri_plugin::proto::*;
use nri_wire::{Context, Runtime, RuntimeEnd, status, ttrpc};
use std::{sync::Arc, time::Duration};
use tokio::{
    net::UnixStream,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

/// Time limit of each call: long, so that no call times out on a loaded machine.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// A runtime that refuses the plugin "unwanted", never replies to the plugin "ignored", and reports
/// each update as failed.
struct TestRuntime {
    registered: UnboundedSender<RegisterPluginRequest>,
    requested: UnboundedSender<UpdateContainersRequest>,
}

#[async_trait]
impl Runtime for TestRuntime {
    async fn register_plugin(
        &self,
        _: &Context,
        request: RegisterPluginRequest,
    ) -> ttrpc::Result<Empty> {
        match request.plugin_name.as_str() {
            "unwanted" => return Err(status(ttrpc::Code::PERMISSION_DENIED, "not you")),
            "ignored" => std::future::pending().await,
            _ => self.registered.send(request).ok(),
        };
        Ok(Empty::new())
    }

    async fn update_containers(
        &self,
        _: &Context,
        request: UpdateContainersRequest,
    ) -> ttrpc::Result<UpdateContainersResponse> {
        self.requested.send(request.clone()).ok();
        Ok(UpdateContainersResponse { failed: request.update, ..Default::default() })
    }
}

/// The runtime's end of a connection, and the requests that it has received.
pub struct TestRuntimeEnd {
    pub end: RuntimeEnd,
    pub registered: UnboundedReceiver<RegisterPluginRequest>,
    pub requested: UnboundedReceiver<UpdateContainersRequest>,
}

/// Serves a plugin as a [`TestRuntime`] on the stream.
pub async fn serve_runtime(stream: UnixStream) -> TestRuntimeEnd {
    let (registrations, registered) = unbounded_channel();
    let (requests, requested) = unbounded_channel();
    let end = RuntimeEnd::new(
        stream,
        Arc::new(TestRuntime { registered: registrations, requested: requests }),
    )
    .await
    .unwrap();
    TestRuntimeEnd { end, registered, requested }
}

pub fn pod(id: &str) -> PodSandbox {
    PodSandbox { id: id.into(), ..Default::default() }
}

pub fn container(id: &str) -> Container {
    Container { id: id.into(), name: id.into(), ..Default::default() }
}
