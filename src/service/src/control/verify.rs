//! `nrictl verify`: the effective resources of containers against their control groups, whoever
//! requested them.

use crate::{
    cgroup::files,
    resources::owners,
    service::Service,
    state::{container::Container, record::Record, status::ContainerStatus},
};
use nri_control::{Verified, VerifiedResource};
use std::{sync::Arc, time::Duration};

/// Time that a verification waits for an update in progress, whose resources are effective in part.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(5);

impl Service {
    /// Verifies the containers of these ids (the runtime's or the plugins', or prefixes of them);
    /// without ids all that are not stopped.
    pub async fn verify(&self, ids: &[String]) -> Vec<Verified> {
        let mut verified = Vec::new();
        if ids.is_empty() {
            for container in self.registry.all() {
                if container.status() != ContainerStatus::Stopped {
                    verified.push(verify(&container).await);
                }
            }
        }
        for id in ids {
            match self.named(id) {
                Ok(container) => verified.push(verify(&container).await),
                Err(why) => {
                    verified.push(Verified {
                        id: id.clone(),
                        error: Some(why.to_owned()),
                        ..Verified::default()
                    });
                }
            }
        }
        verified
    }

    fn named(&self, id: &str) -> Result<Arc<Container>, &'static str> {
        let all = self.registry.all();
        let is = |wanted: &dyn Fn(&str) -> bool| {
            let found = |c: &&Arc<Container>| {
                let record = c.record();
                wanted(&record.key.id) || wanted(&record.container.id)
            };
            all.iter().filter(found).cloned().collect::<Vec<_>>()
        };
        let exact = is(&|known| known == id);
        let found = if exact.is_empty() { is(&|known| known.starts_with(id)) } else { exact };
        match <[Arc<Container>; 1]>::try_from(found) {
            Ok([one]) => Ok(one),
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
        name: record.container.name.clone(),
        engine: record.engine.name.clone(),
        ..Verified::default()
    };
    if lock.is_err() {
        verified.error = Some("another update of the container does not end".to_owned());
    } else if record.status == ContainerStatus::Stopped || record.process_has_ended() {
        verified.error = Some("the container's process has ended".to_owned());
    } else if let Some(place) = record.cgroup() {
        let plan = nri_cgroup::plan(&record.effective, &place);
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
    let in_force = files::compare(std::slice::from_ref(write)).is_empty();
    // Older runtimes do not write such a file (reservations of huge pages), and for the engine
    // nrid does not either.
    if write.is_optional && (found.is_err() || (owner.is_none() && !in_force)) {
        return None;
    }
    Some(VerifiedResource {
        field: write.field.clone(),
        file: file.as_os_str().into(),
        wanted: write.effective.to_string(),
        effective: in_force,
        found: found.map_err(|e| e.to_string()),
        owner,
    })
}
