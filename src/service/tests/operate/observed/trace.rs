//! Tests of trace contexts: plugins receive that of the engine as metadata of their calls.

use crate::{
    create::{bundle_with, create_in},
    node::Node,
    wire_plugin::{self, wait_until_active},
};
use async_trait::async_trait;
use nri_api::{
    EventMask,
    proto::{
        ConfigureRequest, ConfigureResponse, CreateContainerRequest, CreateContainerResponse,
        Empty, Event, StateChangeEvent, SynchronizeRequest, SynchronizeResponse,
        ValidateContainerAdjustmentRequest, ValidateContainerAdjustmentResponse,
    },
};
use nri_control::Reply;
use nri_wire::{Context, Plugin, PluginEnd, TraceContext, ttrpc};
use std::sync::{Arc, Mutex};
use tokio::task::spawn_blocking;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A plugin that records the trace context of each call.
#[derive(Default)]
struct TraceRecorder(Mutex<Vec<(&'static str, Option<TraceContext>)>>);

impl TraceRecorder {
    fn record(&self, call: &'static str, context: &Context) {
        self.0.lock().unwrap().push((call, TraceContext::of_metadata(&context.metadata)));
    }
}

#[async_trait]
impl Plugin for TraceRecorder {
    async fn configure(
        &self,
        _: &Context,
        _: ConfigureRequest,
    ) -> ttrpc::Result<ConfigureResponse> {
        let events = EventMask::NONE
            .with(Event::RUN_POD_SANDBOX)
            .with(Event::CREATE_CONTAINER)
            .with(Event::VALIDATE_CONTAINER_ADJUSTMENT);
        Ok(ConfigureResponse { events: events.bits(), ..Default::default() })
    }

    async fn synchronize(
        &self,
        _: &Context,
        _: SynchronizeRequest,
    ) -> ttrpc::Result<SynchronizeResponse> {
        Ok(SynchronizeResponse::new())
    }

    async fn state_change(&self, context: &Context, _: StateChangeEvent) -> ttrpc::Result<Empty> {
        self.record("StateChange", context);
        Ok(Empty::new())
    }

    async fn create_container(
        &self,
        context: &Context,
        _: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        self.record("CreateContainer", context);
        Ok(CreateContainerResponse::new())
    }

    async fn validate_container_adjustment(
        &self,
        context: &Context,
        _: ValidateContainerAdjustmentRequest,
    ) -> ttrpc::Result<ValidateContainerAdjustmentResponse> {
        self.record("ValidateContainerAdjustment", context);
        Ok(ValidateContainerAdjustmentResponse::new())
    }
}

/// Connects the plugin, and waits until it is active.
async fn connect(node: &Arc<Node>) -> (Arc<TraceRecorder>, Arc<PluginEnd>) {
    let recorder = Arc::new(TraceRecorder::default());
    let plugin = wire_plugin::connect(node, recorder.clone()).await;
    let node = node.clone();
    spawn_blocking(move || wait_until_active(&node)).await.unwrap();
    (recorder, plugin)
}

/// Creates a container with these variables of the runtime and of the container's process, and
/// returns the contexts that the plugin received.
fn contexts(
    node: &Node,
    plugin: &TraceRecorder,
    (runtime, process): (&[&str], &[&str]),
    id: &str,
) -> Vec<(&'static str, Option<TraceContext>)> {
    let config = format!(
        r#"{{"ociVersion":"1.0.2","process":{{"args":["sh"],"cwd":"/","env":{process:?}}}}}"#
    );
    let (reply, client) = create_in(runtime, node, id, &bundle_with(node, id, &config));
    assert!(matches!(reply, Reply::Proceed(_)), "{reply:?}");
    drop(client);
    std::mem::take(&mut *plugin.0.lock().unwrap())
}

#[tokio::test]
async fn plugins_receive_the_trace_context_of_the_engine() {
    let node = Arc::new(Node::new(""));
    let nrid = node.start();
    let (recorder, _plugin) = connect(&node).await;
    let checked = node.clone();
    let check = move || {
        let node = checked;
        let calls = ["StateChange", "CreateContainer", "ValidateContainerAdjustment"];
        let all =
            |context: Option<TraceContext>| calls.map(|call| (call, context.clone())).to_vec();
        let (parent, other) = (format!("TRACEPARENT={PARENT}"), format!("TRACEPARENT={OTHER}"));

        let runtime = [parent.as_str(), "TRACESTATE=a=1"];
        let found = contexts(&node, &recorder, (&runtime, &[&other]), "c1");
        assert_eq!(found, all(TraceContext::new(PARENT, Some("a=1"))));
        // As BuildKit passes it.
        let found = contexts(&node, &recorder, (&[], &["A=1", &other]), "c2");
        assert_eq!(found, all(TraceContext::new(OTHER, None)));
        let found = contexts(&node, &recorder, (&["TRACEPARENT=x"], &[]), "c3");
        assert_eq!(found, all(None));
        node.stop();
    };
    spawn_blocking(check).await.unwrap();
    nrid.wait_for_exit();
}
