//! Events about a pod, and the replies of a plugin in a form that can be compared.

use crate::{pods::Case, runtime::TIMEOUT};
use nri_api::{EventMask, proto::*};
use nri_wire::{CallError, PluginClient};
use protobuf::MessageFull;
use serde_json::{Map, Value};

/// Reply to an event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) event: &'static str,
    pub(crate) outcome: Outcome,
}

/// What a plugin replied.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// Nothing is to be changed.
    Unchanged,
    /// Protobuf JSON of the reply.
    Changed(Value),
    /// The event fails, with this text.
    Refused(String),
    /// The plugin has not replied.
    Ended(String),
}

impl Outcome {
    fn of<M: MessageFull>(reply: Result<M, CallError>, order: impl Fn(&mut M)) -> Self {
        match reply {
            Ok(mut message) => {
                order(&mut message);
                let text = protobuf_json_mapping::print_to_string(&message).unwrap();
                match canonical(serde_json::from_str(&text).unwrap()) {
                    Value::Null => Self::Unchanged,
                    value => Self::Changed(value),
                }
            }
            Err(CallError::Status { message, .. }) => Self::Refused(message),
            Err(error) => Self::Ended(error.to_string()),
        }
    }

    /// Whether two replies have the same effect: texts of errors may differ.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Refused(_), Self::Refused(_)) => true,
            _ => self == other,
        }
    }
}

/// Returns a value without members that have no value, which mean the same as absent ones, and
/// without process ids of the plugin `logger`.
fn canonical(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| (name, canonical(value)));
            let members: Map<_, _> = members.filter(|(_, value)| !value.is_null()).collect();
            if members.is_empty() { Value::Null } else { members.into() }
        }
        Value::Array(values) if values.is_empty() => Value::Null,
        Value::Array(values) => values.into_iter().map(canonical).collect(),
        Value::String(text) if text.starts_with("logger-pid-") => "logger-pid".into(),
        value => value,
    }
}

/// Orders entries by their key, a removal first: the protocol gives no meaning to their order.
fn order_adjustment(adjust: &mut ContainerAdjustment) {
    fn key(name: &str) -> (String, bool) {
        (name.trim_start_matches('-').to_owned(), !name.starts_with('-'))
    }
    adjust.mounts.sort_by_key(|mount| key(&mount.destination));
    adjust.env.sort_by_key(|variable| key(&variable.key));
    adjust.rlimits.sort_by_key(|limit| key(&limit.type_));
    adjust.CDI_devices.sort_by_key(|device| key(&device.name));
    if let Some(linux) = adjust.linux.as_mut() {
        linux.devices.sort_by_key(|device| key(&device.path));
    }
}

/// Returns the outcome of an event that has a method of its own. Plugins on a stub of before v0.12
/// have not, and receive it as a change of state, as runtimes send it then.
async fn of_notification<M: MessageFull>(
    reply: Result<M, CallError>,
    plugin: &PluginClient,
    event: Event,
    case: &Case,
) -> Outcome {
    if !reply.as_ref().is_err_and(CallError::is_unimplemented) {
        return Outcome::of(reply, |_| {});
    }
    let change = StateChangeEvent {
        event: event.into(),
        pod: Some(case.pod.clone()).into(),
        container: Some(case.container.clone()).into(),
        ..Default::default()
    };
    Outcome::of(plugin.state_change(TIMEOUT, &change).await, |_| {})
}

/// Sends the events of a life cycle that the plugin has subscribed to.
pub(crate) async fn replies(plugin: &PluginClient, events: EventMask, case: &Case) -> Vec<Reply> {
    let pod = || Some(case.pod.clone()).into();
    let container = || Some(case.container.clone()).into();
    let mut found = Vec::new();
    if events.contains(Event::RUN_POD_SANDBOX) {
        let request = RunPodSandboxRequest { pod: pod(), ..Default::default() };
        let reply = plugin.run_pod_sandbox(TIMEOUT, &request).await;
        let outcome = of_notification(reply, plugin, Event::RUN_POD_SANDBOX, case).await;
        found.push(Reply { event: "RunPodSandbox", outcome });
    }
    if events.contains(Event::CREATE_CONTAINER) {
        let request =
            CreateContainerRequest { pod: pod(), container: container(), ..Default::default() };
        let reply = plugin.create_container(TIMEOUT, &request).await;
        let outcome = Outcome::of(reply, |reply| {
            reply.adjust.as_mut().into_iter().for_each(order_adjustment)
        });
        found.push(Reply { event: "CreateContainer", outcome });
    }
    if events.contains(Event::START_CONTAINER) {
        let request =
            StartContainerRequest { pod: pod(), container: container(), ..Default::default() };
        let reply = plugin.start_container(TIMEOUT, &request).await;
        let outcome = of_notification(reply, plugin, Event::START_CONTAINER, case).await;
        found.push(Reply { event: "StartContainer", outcome });
    }
    if events.contains(Event::UPDATE_CONTAINER) {
        let mut request =
            UpdateContainerRequest { pod: pod(), container: container(), ..Default::default() };
        request.linux_resources.mut_or_insert_default().pids.mut_or_insert_default().limit = 7;
        let reply = plugin.update_container(TIMEOUT, &request).await;
        found.push(Reply { event: "UpdateContainer", outcome: Outcome::of(reply, |_| {}) });
    }
    if events.contains(Event::STOP_CONTAINER) {
        let request =
            StopContainerRequest { pod: pod(), container: container(), ..Default::default() };
        let reply = plugin.stop_container(TIMEOUT, &request).await;
        found.push(Reply { event: "StopContainer", outcome: Outcome::of(reply, |_| {}) });
    }
    if events.contains(Event::STOP_POD_SANDBOX) {
        let request = StopPodSandboxRequest { pod: pod(), ..Default::default() };
        let reply = plugin.stop_pod_sandbox(TIMEOUT, &request).await;
        let outcome = of_notification(reply, plugin, Event::STOP_POD_SANDBOX, case).await;
        found.push(Reply { event: "StopPodSandbox", outcome });
    }
    if events.contains(Event::REMOVE_POD_SANDBOX) {
        let request = RemovePodSandboxRequest { pod: pod(), ..Default::default() };
        let reply = plugin.remove_pod_sandbox(TIMEOUT, &request).await;
        let outcome = of_notification(reply, plugin, Event::REMOVE_POD_SANDBOX, case).await;
        found.push(Reply { event: "RemovePodSandbox", outcome });
    }
    found
}
