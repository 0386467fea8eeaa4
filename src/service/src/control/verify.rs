//! `nrictl verify`: compares the effective resources of containers with their control groups, for
//! fields that the engine set as well as fields that plugins set.

use crate::{
    cgroup::files,
    resources::owners,
    service::Service,
    state::{container::Container, record::Record, status::ContainerStatus},
};
use nri_cgroup::CgroupWrite;
use nri_control::{Verified, VerifiedResource};
use std::{sync::Arc, time::Duration};

/// Time that a verification waits for an update in progress, during which resources are partly
/// effective.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(5);

impl Service {
    /// Verifies the containers that are meant by these texts; without any, all containers that are
    /// not stopped.
    pub async fn verify(&self, ids: &[String]) -> Vec<Verified> {
        self.refresh_names().await;
        let mut verified = Vec::new();
        if ids.is_empty() {
            for container in self.registry.by_age() {
                if container.status() != ContainerStatus::Stopped {
                    verified.push(verify(&container).await);
                }
            }
        }
        for id in ids {
            let error = match self.registry.find(id) {
                Ok(Some(container)) => {
                    verified.push(verify(&container).await);
                    continue;
                }
                Ok(None) => "no such container".to_owned(),
                Err(ambiguous) => ambiguous.to_string(),
            };
            verified.push(Verified { id: id.clone(), error: Some(error), ..Verified::default() });
        }
        verified
    }
}

async fn verify(container: &Arc<Container>) -> Verified {
    let lock = tokio::time::timeout(UPDATE_TIMEOUT, container.lock_update()).await;
    let record = container.record();
    let mut verified = Verified {
        id: record.key.id.clone(),
        name: record.container.text(&["name"]).to_owned(),
        engine: record.engine.name.clone(),
        pod: record.pod_id.clone(),
        missed: record.missed.clone(),
        ..Verified::default()
    };
    if lock.is_err() {
        verified.error = Some("another update of the container does not end".to_owned());
    } else if record.status == ContainerStatus::Stopped || record.process_has_ended() {
        verified.ended = true;
        verified.error = Some("the container's process has ended".to_owned());
    } else if let Some(dirs) = record.cgroup() {
        let plan = nri_cgroup::plan(&record.effective, &dirs);
        let compare = |write| verify_file(write, &record);
        verified.settings = plan.writes.iter().filter_map(compare).collect();
        verified.nowhere = plan.unsupported;
    } else {
        verified.error = Some("container cgroup unknown".to_owned());
    }
    verified
}

/// Compares a file.
fn verify_file(write: &CgroupWrite, record: &Record) -> Option<VerifiedResource> {
    let file = files::file(write)?;
    let found = files::found(write);
    let owner = owners::owner(&record.owners, &write.field);
    let follows = record.derived.source(&write.field).filter(|_| owner.is_some());
    let is_of_plugin = owner.is_some() && follows.is_none();
    let effective = files::compare(std::slice::from_ref(write)).is_empty();
    // Older runtimes do not write an optional file (reservations of huge pages), and nrid writes it
    // for plugins only.
    if write.is_optional && (found.is_err() || !(is_of_plugin || effective)) {
        return None;
    }
    Some(VerifiedResource {
        field: write.field.clone(),
        file: file.as_os_str().into(),
        wanted: write.effective.to_string(),
        effective,
        found: found.map_err(|e| e.to_string()),
        owner,
        follows: follows.map(str::to_owned),
    })
}
