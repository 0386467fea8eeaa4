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
    /// Verifies the containers with these ids or names; without any, all containers that are not
    /// stopped. An id is the runtime's or the one that plugins see, or a prefix of either.
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
            match only(id, self.registry.find(id)) {
                Ok(container) => verified.push(verify(&container).await),
                Err(error) => {
                    verified.push(Verified {
                        id: id.clone(),
                        error: Some(error.to_string()),
                        ..Verified::default()
                    });
                }
            }
        }
        verified
    }
}

/// Reason why no container is meant.
#[derive(Debug, thiserror::Error)]
enum UnclearContainer {
    #[error("no such container")]
    Unknown,
    #[error("several containers have this name, use an id: {0}")]
    Name(String),
    #[error("several containers have ids with this prefix")]
    Prefix,
}

/// Returns the container that `wanted` means, of those that were found.
fn only(wanted: &str, found: Vec<Arc<Container>>) -> Result<Arc<Container>, UnclearContainer> {
    let found = match <[Arc<Container>; 1]>::try_from(found) {
        Ok([container]) => return Ok(container),
        Err(found) => found,
    };
    let ids: Vec<&str> = found.iter().map(|container| &*container.key().id).collect();
    match ids.first() {
        None => Err(UnclearContainer::Unknown),
        Some(id) if id.starts_with(wanted) => Err(UnclearContainer::Prefix),
        Some(_) => Err(UnclearContainer::Name(ids.join(", "))),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{key::ContainerKey, record::EXAMPLE};

    #[test]
    fn an_unclear_name_is_an_error_with_the_ids() {
        let container = |id: &str| {
            let mut record: Record = serde_json::from_str(EXAMPLE).unwrap();
            record.key = ContainerKey { root: "/r".into(), id: id.to_owned() };
            Container::new(record)
        };
        let error = |wanted: &str, ids: &[&str]| {
            only(wanted, ids.iter().map(|id| container(id)).collect()).unwrap_err().to_string()
        };
        assert_eq!(error("web", &[]), "no such container");
        let several = "several containers have this name, use an id: c1, c2";
        assert_eq!(error("web", &["c1", "c2"]), several);
        assert_eq!(error("c", &["c1", "c2"]), "several containers have ids with this prefix");
        assert_eq!(only("web", vec![container("c1")]).unwrap().key().id, "c1");
    }
}
