//! `nrictl verify`: compares the effective resources of containers with their control groups, for
//! fields that the engine set as well as fields that plugins set.

use crate::{
    cgroup::files,
    resources::owners,
    service::Service,
    state::{container::Container, status::ContainerStatus},
};
use nri_api::{ResourceField, proto::FieldOwners, resource_field};
use nri_cgroup::CgroupWrite;
use nri_control::{Verified, VerifiedResource};
use std::{sync::Arc, time::Duration};

/// Time that a verification waits for an update in progress, during which resources are partly
/// effective.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(5);

const LIMIT: &ResourceField = resource_field("memory.limit");
const SWAP: &ResourceField = resource_field("memory.swap");

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

async fn verify(container: &Container) -> Verified {
    let lock = tokio::time::timeout(UPDATE_TIMEOUT, container.update_lock.lock()).await;
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
        let requested = nri_cgroup::plan(&record.requested, &dirs).writes;
        let compare = |write| verify_file(write, &record.owners, &requested);
        verified.settings = plan.writes.iter().filter_map(compare).collect();
        verified.nowhere = plan.unsupported;
    } else {
        verified.error = Some("container cgroup unknown".to_owned());
    }
    verified
}

/// Compares a file. `requested` has the writes for what the engine requested.
fn verify_file(
    write: &CgroupWrite,
    owners: &FieldOwners,
    requested: &[CgroupWrite],
) -> Option<VerifiedResource> {
    let file = files::file(write)?;
    let found = files::found(write);
    let (owner, follows) = attribute(write, owners, requested);
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

/// Returns the plugin that set a field, or else the plugin from whose value of another field this
/// value follows, and that field. A limit of swap follows the limit of memory, unless it is what
/// the engine requested.
fn attribute(
    write: &CgroupWrite,
    owners: &FieldOwners,
    requested: &[CgroupWrite],
) -> (Option<String>, Option<&'static str>) {
    let owner = owners::owner(owners, &write.field);
    let is_requested =
        || requested.iter().any(|r| r.files == write.files && r.effective == write.effective);
    if owner.is_some() || write.field != SWAP.name || is_requested() {
        return (owner, None);
    }
    let owner = owners::owner(owners, LIMIT.name);
    let follows = owner.is_some().then_some(LIMIT.name);
    (owner, follows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{
        key::ContainerKey,
        record::{EXAMPLE, Record},
    };
    use nri_api::proto::Field;
    use nri_cgroup::EffectiveValue;
    use protobuf::Enum;

    fn write(field: &str, bytes: u64) -> CgroupWrite {
        CgroupWrite {
            field: field.to_owned(),
            files: vec![format!("/cgroup/{field}").into()],
            texts: vec![bytes.to_string()],
            effective: EffectiveValue::Bytes(Some(bytes)),
            is_optional: false,
        }
    }

    #[test]
    fn a_limit_of_swap_belongs_to_the_plugin_whose_limit_it_follows() {
        let of = |fields: &[(Field, &str)]| {
            let mut owners = FieldOwners::default();
            let simple = fields.iter().map(|(field, owner)| (field.value(), (*owner).to_owned()));
            owners.simple.extend(simple);
            owners
        };
        let limit = (Field::MemLimit, "10-a");
        let both = of(&[limit, (Field::MemSwapLimit, "20-b")]);
        let requested = [write("memory.limit", 1), write("memory.swap", 5)];
        for (owners, bytes, owner, follows) in [
            (of(&[limit]), 2, Some("10-a"), Some("memory.limit")),
            // The engine requested this limit, and the plugin has not changed it.
            (of(&[limit]), 5, None, None),
            (both, 2, Some("20-b"), None),
            (of(&[]), 2, None, None),
        ] {
            let found = attribute(&write("memory.swap", bytes), &owners, &requested);
            assert_eq!((found.0.as_deref(), found.1), (owner, follows), "{owners:?} {bytes}");
        }
        let pids = attribute(&write("pids.limit", 2), &of(&[limit]), &[]);
        assert_eq!(pids, (None, None));
    }

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
