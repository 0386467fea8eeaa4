//! The container that a line is about.

use crate::state::{key::ContainerKey, pod::PodKind, pods::Pods, record::Record};
use nri_files::{AuditEvent, AuditLine};

/// Returns a line about a container of which only the id and the root directory are known.
pub fn line_of_key(key: &ContainerKey, event: AuditEvent) -> AuditLine {
    AuditLine {
        event,
        container: key.id.clone(),
        root: key.root.to_string_lossy().into_owned(),
        ..AuditLine::default()
    }
}

/// Returns a line about a container with a record.
pub fn line_of(record: &Record, pods: &Pods, event: AuditEvent) -> AuditLine {
    let mut line = AuditLine {
        name: record.container.text(&["name"]).to_owned(),
        engine: record.engine.name.clone(),
        runtime: record.runtime.name(),
        creation: record.incarnation,
        ..line_of_key(&record.key, event)
    };
    let pod = pods.get(&record.pod_id).filter(|pod| pod.kind != PodKind::SingleContainer);
    if let Some(pod) = pod {
        line.pod.clone_from(&record.pod_id);
        line.pod_name = pod.sandbox.text(&["name"]).to_owned();
        line.namespace = pod.sandbox.text(&["namespace"]).to_owned();
    }
    line
}
