//! Test runtime, test plugin, and a peer that sends raw ttrpc.
#![allow(dead_code, unreachable_pub)] // each test file uses a part
#![allow(clippy::unwrap_used, clippy::panic)] // test helpers may panic

use async_trait::async_trait;
use nri_api::proto::*;
use nri_wire::{
    CallLimits, ConnId, Context, Plugin, PluginEnd, Runtime, RuntimeEnd, Trunk, status, ttrpc,
};
use std::sync::{Arc, Mutex, OnceLock};
use tokio::{
    net::UnixStream,
    sync::{Notify, mpsc},
};
use ttrpc::{
    Code, MessageHeader,
    proto::{GenMessage, MESSAGE_TYPE_RESPONSE},
};

/// A runtime that records the names of registered plugins, and fails each requested update.
#[derive(Default)]
pub struct TestRuntime {
    pub registered: Mutex<Vec<String>>,
}

#[async_trait]
impl Runtime for TestRuntime {
    async fn register_plugin(
        &self,
        _: &Context,
        request: RegisterPluginRequest,
    ) -> ttrpc::Result<Empty> {
        self.registered.lock().unwrap().push(request.plugin_name);
        Ok(Empty::new())
    }

    async fn update_containers(
        &self,
        _: &Context,
        request: UpdateContainersRequest,
    ) -> ttrpc::Result<UpdateContainersResponse> {
        Ok(UpdateContainersResponse { failed: request.update, ..Default::default() })
    }
}

/// A plugin whose behaviour depends on the id of the container.
pub struct TestPlugin {
    /// Client for updates that a handler requests.
    pub end: OnceLock<Arc<PluginEnd>>,
    /// Lets the handler for the container "wait" continue.
    pub continue_wait: Notify,
    /// Ids of the creations whose handler completed.
    pub done: mpsc::UnboundedSender<String>,
}

#[async_trait]
impl Plugin for TestPlugin {
    async fn create_container(
        &self,
        _: &Context,
        request: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        let id = request.container.id.clone();
        let mut reply = CreateContainerResponse::new();
        match id.as_str() {
            "wait" => self.continue_wait.notified().await,
            "panic" => panic!("on purpose"),
            "refuse" => return Err(status(Code::FAILED_PRECONDITION, "not this one")),
            // With its envelope, the reply is larger than a message may be.
            "huge" => reply.adjust.mut_or_insert_default().args = vec!["x".repeat(4 << 20)],
            "update" => {
                let update = ContainerUpdate { container_id: "other".into(), ..Default::default() };
                let request =
                    UpdateContainersRequest { update: vec![update], ..Default::default() };
                let runtime = self.end.wait().runtime();
                reply.update = runtime.update_containers(None, &request).await.unwrap().failed;
            }
            _ => reply.adjust.mut_or_insert_default().args = request.container.args.clone(),
        }
        self.done.send(id).ok();
        Ok(reply)
    }
}

/// Both ends of a session over a real socket pair.
pub struct Session {
    pub runtime: RuntimeEnd,
    pub end: Arc<PluginEnd>,
    pub plugin: Arc<TestPlugin>,
    pub done: mpsc::UnboundedReceiver<String>,
}

pub async fn session() -> Session {
    let (a, b) = UnixStream::pair().unwrap();
    session_over(Trunk::new(a), Trunk::new(b)).await
}

pub async fn session_over(a: Trunk, b: Trunk) -> Session {
    let (sender, done) = mpsc::unbounded_channel();
    let plugin =
        Arc::new(TestPlugin { end: OnceLock::new(), continue_wait: Notify::new(), done: sender });
    let runtime = RuntimeEnd::over(a, Arc::new(TestRuntime::default()), &CallLimits::default())
        .await
        .unwrap();
    let end = Arc::new(PluginEnd::over(b, plugin.clone()).await.unwrap());
    assert!(plugin.end.set(end.clone()).is_ok());
    Session { runtime, end, plugin, done }
}

/// Returns the request to create a container; the id selects what [`TestPlugin`] does.
pub fn create(id: &str) -> CreateContainerRequest {
    let container = Container { id: id.into(), args: vec![id.into()], ..Default::default() };
    CreateContainerRequest { container: Some(container).into(), ..Default::default() }
}

/// The runtime's end of a session, and the trunk of a peer that writes raw data.
pub async fn session_with_raw_peer() -> (RuntimeEnd, Trunk) {
    let (a, b) = UnixStream::pair().unwrap();
    (RuntimeEnd::new(a, Arc::new(TestRuntime::default())).await.unwrap(), Trunk::new(b))
}

pub fn id(n: u32) -> ConnId {
    ConnId::new(n).unwrap()
}

/// Returns a ttrpc message whose payload need not be valid.
pub fn raw(kind: u8, stream_id: u32, payload: Vec<u8>) -> GenMessage {
    let header = MessageHeader { length: payload.len() as u32, stream_id, type_: kind, flags: 0 };
    GenMessage { header, payload }
}

pub fn raw_response(stream_id: u32, payload: Vec<u8>) -> GenMessage {
    raw(MESSAGE_TYPE_RESPONSE, stream_id, payload)
}
