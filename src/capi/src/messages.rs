//! Messages of the protocol as JSON (protojson): parsing, printing, and what events may change.

use nri_runtime::proto::{Container, PodSandbox, SynchronizeRequest};
use nri_runtime::{ContainerImage, ContainerInfo, Plugin, Snapshot};
use protobuf::MessageFull;
use serde_json::json;

use crate::failure::Failure;

/// Parses a message.
pub(crate) fn parse<M: MessageFull>(name: &'static str, text: &str) -> Result<M, Failure> {
    protobuf_json_mapping::parse_from_str(text).map_err(|e| Failure::argument(name, e))
}

/// Parses pods and containers that exist, a `SynchronizeRequest`.
pub(crate) fn parse_state(text: &str) -> Result<Snapshot, Failure> {
    let SynchronizeRequest { pods, containers, .. } = parse("state", text)?;
    Ok(Snapshot { pods, containers })
}

/// Prints pods and containers in the form that [`parse_state`] reads.
pub(crate) fn print_state(state: Snapshot) -> Result<String, Failure> {
    let Snapshot { pods, containers } = state;
    let message = SynchronizeRequest { pods, containers, ..Default::default() };
    let printed = protobuf_json_mapping::print_to_string(&message);
    printed.map_err(|e| Failure::Print { name: "state", reason: e.to_string() })
}

/// Prints plugins.
pub(crate) fn print_plugins(plugins: &[Plugin]) -> String {
    let print = |plugin: &Plugin| {
        json!({
            "id": plugin.id.as_ref().map(ToString::to_string),
            "launched": plugin.launched.as_ref().map(|file| file.to_string_lossy()),
            "pid": plugin.pid,
            "active": plugin.active,
            "lastError": plugin.last_error,
        })
    };
    serde_json::Value::from_iter(plugins.iter().map(print)).to_string()
}

/// Returns the facts of a container that its `config.json` does not have.
pub(crate) fn info(container: Container) -> ContainerInfo {
    let image = container.image.into_option().map(|image| ContainerImage {
        name: image.name,
        digest: image.digest,
        config_digest: image.config_digest,
    });
    ContainerInfo {
        id: container.id,
        pod_sandbox_id: container.pod_sandbox_id,
        name: container.name,
        labels: container.labels,
        annotations: container.annotations,
        image,
        created_at: container.created_at,
        cdi_devices: container.CDI_devices.into_iter().map(|device| device.name).collect(),
        ..ContainerInfo::default()
    }
}

/// Takes what an event may say anew of a container. Fields that are 0 or empty stay.
pub(crate) fn change_container(container: &mut Container, event: &Container) {
    let set = |old: &mut i64, new: i64| *old = if new == 0 { *old } else { new };
    set(&mut container.created_at, event.created_at);
    set(&mut container.started_at, event.started_at);
    set(&mut container.finished_at, event.finished_at);
    if event.pid != 0 {
        container.pid = event.pid;
    }
    if event.exit_code != 0 {
        container.exit_code = event.exit_code;
    }
    if !event.status_reason.is_empty() {
        container.status_reason.clone_from(&event.status_reason);
    }
    if !event.status_message.is_empty() {
        container.status_message.clone_from(&event.status_message);
    }
}

/// Takes what an event may say anew of a pod. Fields that are 0 or empty stay.
pub(crate) fn change_pod(pod: &mut PodSandbox, event: &PodSandbox) {
    if event.pid != 0 {
        pod.pid = event.pid;
    }
    if !event.ips.is_empty() {
        pod.ips.clone_from(&event.ips);
    }
}
