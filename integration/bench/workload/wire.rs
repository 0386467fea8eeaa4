//! Work on the wire: a session between a runtime and a plugin in one process, and frames without a
//! session.

use async_trait::async_trait;
use nri_api::proto::{CreateContainerRequest, CreateContainerResponse};
use nri_wire::{ConnId, Context, Decoder, Plugin, PluginEnd, Runtime, RuntimeEnd, encode, ttrpc};
use std::sync::Arc;
use tokio::net::UnixStream;

/// A runtime without methods.
struct NoRuntime;

impl Runtime for NoRuntime {}

/// A plugin that changes nothing.
struct NoChange;

#[async_trait]
impl Plugin for NoChange {
    async fn create_container(
        &self,
        _: &Context,
        _: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        Ok(CreateContainerResponse::default())
    }
}

/// Both ends of a session over a socket.
pub struct Session {
    runtime: RuntimeEnd,
    _plugin: PluginEnd,
}

impl Session {
    /// Connects the ends.
    pub async fn new() -> Self {
        let (a, b) = UnixStream::pair().expect("a socket pair can be created");
        let runtime = RuntimeEnd::new(a, Arc::new(NoRuntime)).await;
        let plugin = PluginEnd::new(b, Arc::new(NoChange)).await;
        let (runtime, _plugin) = (runtime.expect("a new trunk"), plugin.expect("a new trunk"));
        Self { runtime, _plugin }
    }

    /// Sends a request to the plugin and returns its reply.
    pub async fn call(&self, request: &CreateContainerRequest) -> CreateContainerResponse {
        self.runtime.plugin().create_container(None, request).await.expect("the plugin replies")
    }
}

/// Writes a payload as frames of the trunk and reads them; returns the size of what was read.
pub fn frames(payload: &[u8]) -> usize {
    let mut bytes = bytes::BytesMut::new();
    encode(ConnId::PLUGIN, payload, &mut bytes);
    let mut decoder = Decoder::new();
    decoder.feed(&bytes);
    let mut size = 0;
    while let Some(frame) = decoder.next_frame().expect("the frames are valid") {
        size += frame.payload.len();
    }
    size
}
