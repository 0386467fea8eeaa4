//! The service of a scripted plugin: records each request and sends the reply of the case.

use super::{Containers, Journal};
use crate::case::{PluginScript, Reply};
use async_trait::async_trait;
use nri_api::proto::*;
use nri_wire::{Context, status, ttrpc};
use protobuf::{MessageField, MessageFull};
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;
use ttrpc::Code;

/// A plugin of a case, as a service.
pub struct Scripted {
    script: Mutex<PluginScript>,
    mask: i32,
    containers: Arc<Containers>,
    /// Requests so far.
    pub journal: Journal,
    /// Description of the runtime, from `Configure`.
    pub configured: Mutex<Option<ConfigureRequest>>,
    /// Whether `Synchronize` has been received completely.
    pub synchronized: Notify,
    /// Notified when a reply is to close the connection.
    pub disconnect: Notify,
}

impl Scripted {
    /// Creates a plugin with a script, subscribed to the events of `mask`.
    pub fn new(script: PluginScript, mask: i32, containers: Arc<Containers>) -> Self {
        Self {
            script: Mutex::new(script),
            mask,
            containers,
            journal: Journal::default(),
            configured: Mutex::new(None),
            synchronized: Notify::new(),
            disconnect: Notify::new(),
        }
    }

    /// Replaces the replies.
    pub fn set_replies(&self, replies: Vec<Reply>) {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).reply = replies;
    }

    /// Records a request, and returns the reply to it after what the reply does besides.
    async fn received(&self, event: &str, request: &impl MessageFull) -> ttrpc::Result<Reply> {
        let message = json(request);
        self.containers.learn(&message);
        self.journal.add(event, message.clone());
        let reply = self.find(event, &message);
        if reply.hang {
            std::future::pending::<()>().await;
        }
        if reply.disconnect {
            self.disconnect.notify_one();
            std::future::pending::<()>().await;
        }
        match &reply.error {
            Some(error) => Err(status(Code::UNKNOWN, error)),
            None => Ok(reply),
        }
    }

    fn find(&self, event: &str, message: &Value) -> Reply {
        let id = message.pointer("/container/id").and_then(Value::as_str).unwrap_or_default();
        let name = self.containers.name(id);
        let script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        let is_match = |reply: &&Reply| {
            reply.on == event && (reply.container.is_none() || reply.container == name)
        };
        script.reply.iter().find(is_match).cloned().unwrap_or_default()
    }

    /// Handles a request that has no reply but success or an error. An old plugin does not know its
    /// method.
    async fn notified<T: Default>(
        &self,
        event: &str,
        request: &impl MessageFull,
    ) -> ttrpc::Result<T> {
        if self.script.lock().unwrap_or_else(PoisonError::into_inner).old {
            return Err(status(Code::UNIMPLEMENTED, format!("{event} is not implemented")));
        }
        self.received(event, request).await.map(|_| T::default())
    }

    fn updates(&self, reply: &Reply) -> ttrpc::Result<Vec<ContainerUpdate>> {
        reply.update.iter().map(|update| parse(&self.containers.with_ids(update))).collect()
    }
}

/// Returns a message in protojson.
pub fn json(message: &impl MessageFull) -> Value {
    let text = protobuf_json_mapping::print_to_string(message).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Parses protojson. An error is one of the case, and fails the request.
pub fn parse<M: MessageFull>(value: &Value) -> ttrpc::Result<M> {
    protobuf_json_mapping::parse_from_str(&value.to_string())
        .map_err(|error| status(Code::INVALID_ARGUMENT, format!("in the case: {error}: {value}")))
}

#[async_trait]
impl nri_wire::Plugin for Scripted {
    async fn configure(
        &self,
        _: &Context,
        request: ConfigureRequest,
    ) -> ttrpc::Result<ConfigureResponse> {
        *self.configured.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.clone());
        self.received("Configure", &request).await?;
        Ok(ConfigureResponse { events: self.mask, ..Default::default() })
    }

    async fn synchronize(
        &self,
        _: &Context,
        request: SynchronizeRequest,
    ) -> ttrpc::Result<SynchronizeResponse> {
        let reply = self.received("Synchronize", &request).await?;
        if request.more {
            return Ok(SynchronizeResponse { more: true, ..Default::default() });
        }
        self.synchronized.notify_one();
        Ok(SynchronizeResponse { update: self.updates(&reply)?, ..Default::default() })
    }

    async fn create_container(
        &self,
        _: &Context,
        request: CreateContainerRequest,
    ) -> ttrpc::Result<CreateContainerResponse> {
        let reply = self.received("CreateContainer", &request).await?;
        let adjust = match &reply.adjust {
            Some(adjust) => MessageField::some(parse(adjust)?),
            None => MessageField::none(),
        };
        Ok(CreateContainerResponse { adjust, update: self.updates(&reply)?, ..Default::default() })
    }

    async fn update_container(
        &self,
        _: &Context,
        request: UpdateContainerRequest,
    ) -> ttrpc::Result<UpdateContainerResponse> {
        let reply = self.received("UpdateContainer", &request).await?;
        Ok(UpdateContainerResponse { update: self.updates(&reply)?, ..Default::default() })
    }

    async fn stop_container(
        &self,
        _: &Context,
        request: StopContainerRequest,
    ) -> ttrpc::Result<StopContainerResponse> {
        let reply = self.received("StopContainer", &request).await?;
        Ok(StopContainerResponse { update: self.updates(&reply)?, ..Default::default() })
    }

    async fn validate_container_adjustment(
        &self,
        _: &Context,
        request: ValidateContainerAdjustmentRequest,
    ) -> ttrpc::Result<ValidateContainerAdjustmentResponse> {
        let reply = self.received("ValidateContainerAdjustment", &request).await?;
        Ok(ValidateContainerAdjustmentResponse {
            reject: reply.reject.is_some(),
            reason: reply.reject.unwrap_or_default(),
            ..Default::default()
        })
    }

    async fn update_pod_sandbox(
        &self,
        _: &Context,
        request: UpdatePodSandboxRequest,
    ) -> ttrpc::Result<UpdatePodSandboxResponse> {
        self.received("UpdatePodSandbox", &request).await?;
        Ok(UpdatePodSandboxResponse::new())
    }

    async fn state_change(&self, _: &Context, request: StateChangeEvent) -> ttrpc::Result<Empty> {
        let name = format!("{:?}", request.event.enum_value_or_default());
        self.received(&method(&name), &request).await?;
        Ok(Empty::new())
    }

    async fn run_pod_sandbox(
        &self,
        _: &Context,
        request: RunPodSandboxRequest,
    ) -> ttrpc::Result<RunPodSandboxResponse> {
        self.notified("RunPodSandbox", &request).await
    }

    async fn post_update_pod_sandbox(
        &self,
        _: &Context,
        request: PostUpdatePodSandboxRequest,
    ) -> ttrpc::Result<PostUpdatePodSandboxResponse> {
        self.notified("PostUpdatePodSandbox", &request).await
    }

    async fn stop_pod_sandbox(
        &self,
        _: &Context,
        request: StopPodSandboxRequest,
    ) -> ttrpc::Result<StopPodSandboxResponse> {
        self.notified("StopPodSandbox", &request).await
    }

    async fn remove_pod_sandbox(
        &self,
        _: &Context,
        request: RemovePodSandboxRequest,
    ) -> ttrpc::Result<RemovePodSandboxResponse> {
        self.notified("RemovePodSandbox", &request).await
    }

    async fn post_create_container(
        &self,
        _: &Context,
        request: PostCreateContainerRequest,
    ) -> ttrpc::Result<PostCreateContainerResponse> {
        self.notified("PostCreateContainer", &request).await
    }

    async fn start_container(
        &self,
        _: &Context,
        request: StartContainerRequest,
    ) -> ttrpc::Result<StartContainerResponse> {
        self.notified("StartContainer", &request).await
    }

    async fn post_start_container(
        &self,
        _: &Context,
        request: PostStartContainerRequest,
    ) -> ttrpc::Result<PostStartContainerResponse> {
        self.notified("PostStartContainer", &request).await
    }

    async fn post_update_container(
        &self,
        _: &Context,
        request: PostUpdateContainerRequest,
    ) -> ttrpc::Result<PostUpdateContainerResponse> {
        self.notified("PostUpdateContainer", &request).await
    }

    async fn remove_container(
        &self,
        _: &Context,
        request: RemoveContainerRequest,
    ) -> ttrpc::Result<RemoveContainerResponse> {
        self.notified("RemoveContainer", &request).await
    }

    async fn shutdown(&self, _: &Context, _: Empty) -> ttrpc::Result<Empty> {
        Ok(Empty::new())
    }
}

/// Returns the method of an event: `StartContainer` for `START_CONTAINER`.
pub(super) fn method(event: &str) -> String {
    event
        .split('_')
        .flat_map(|word| {
            let (first, rest) = word.split_at(word.len().min(1));
            [first.to_owned(), rest.to_lowercase()]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_names_of_methods() {
        assert_eq!(method("POST_CREATE_CONTAINER"), "PostCreateContainer");
        assert_eq!(method("RUN_POD_SANDBOX"), "RunPodSandbox");
    }
}
