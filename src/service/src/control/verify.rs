//! `nrictl verify`: compares the effective resources of containers with their control groups, for
//! fields that the engine set as well as fields that plugins set.

use crate::{
    cgroup::files,
    resources::owners,
    service::Service,
    state::{container::Container, record::Record, status::ContainerStatus},
};
use nri_control::{Verified, VerifiedResource};
use std::{sync::Arc, time::Duration};

/// Time that a verification waits for an update in progress, during which resources are partly
/// effective.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(5);

impl Service {
    /// Verifies the containers with these ids; without ids, all containers that are not stopped. An
    /// id is the runtime's or the one that plugins see, or a prefix of either.
    pub async fn verify(&self, ids: &[String]) -> Vec<Verified> {
        let mut verified = Vec::new();
        if ids.is_empty() {
            for container in self.registry.by_age() {
                if container.status() != ContainerStatus::Stopped {
                    verified.push(verify(&container).await);
                }
            }
        }
        for id in ids {
            match self.find_by_id(id) {
                Ok(container) => verified.push(verify(&container).await),
                Err(error) => {
                    verified.push(Verified {
                        id: id.clone(),
                        error: Some(error.to_owned()),
                        ..Verified::default()
                    });
                }
            }
        }
        verified
    }

    /// Returns the container with this id, or else the only container whose id begins with it.
    fn find_by_id(&self, id: &str) -> Result<Arc<Container>, &'static str> {
        let found = self.registry.by_id_or_prefix(id);
        match <[Arc<Container>; 1]>::try_from(found) {
            Ok([container]) => Ok(container),
            Err(found) if found.is_empty() => Err("no such container"),
            Err(_) => Err("several containers have ids with this prefix"),
        }
    }
}

async fn verify(container: &Container) -> Verified {
    let lock = tokio::time::timeout(UPDATE_TIMEOUT, container.update_lock.lock()).await;
    let record = container.record();
    let mut verified = Verified {
        id: record.key.id.clone(),
        name: record.container.text(&["name"]).to_owned(),
        engine: record.engine.name.clone(),
        ..Verified::default()
    };
    if lock.is_err() {
        verified.error = Some("another update of the container does not end".to_owned());
    } else if record.status == ContainerStatus::Stopped || record.process_has_ended() {
        verified.error = Some("the container's process has ended".to_owned());
    } else if let Some(dirs) = record.cgroup() {
        let plan = nri_cgroup::plan(&record.effective, &dirs);
        verified.settings =
            plan.writes.iter().filter_map(|write| verify_file(write, &record)).collect();
        verified.nowhere = plan.unsupported;
    } else {
        verified.error = Some("container cgroup unknown".to_owned());
    }
    verified
}

fn verify_file(write: &nri_cgroup::CgroupWrite, record: &Record) -> Option<VerifiedResource> {
    let file = files::file(write)?;
    let found = files::found(write);
    let owner = owners::owner(&record.owners, &write.field);
    let effective = files::compare(std::slice::from_ref(write)).is_empty();
    // Older runtimes do not write an optional file (reservations of huge pages), and nrid writes it
    // for plugins only.
    if write.is_optional && (found.is_err() || (owner.is_none() && !effective)) {
        return None;
    }
    Some(VerifiedResource {
        field: write.field.clone(),
        file: file.as_os_str().into(),
        wanted: write.effective.to_string(),
        effective,
        found: found.map_err(|e| e.to_string()),
        owner,
    })
}
