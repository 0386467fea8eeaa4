//! What is wanted against what the control groups hold, for `nrictl verify`: every field of the
//! resources, whoever asked for it.

use crate::{
    resources::{cgroups, owners},
    service::Service,
    state::{
        record::{Phase, Record},
        registry::Container,
    },
};
use nri_control::{Verified, VerifiedSetting};
use std::{sync::Arc, time::Duration};

/// How long an update that is under way is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

impl Service {
    /// Looks at the containers of these ids (whole ids, the runtime's or the plugins', or
    /// beginnings of them), or at all that have a process.
    pub async fn verify(&self, ids: &[String]) -> Vec<Verified> {
        let mut verified = Vec::new();
        if ids.is_empty() {
            for container in self.registry.all() {
                if container.record().phase != Phase::Stopped {
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
            Err(_) => Err("several containers have ids that begin so"),
        }
    }
}

async fn verify(container: &Container) -> Verified {
    // Half way through an update nothing is as it is to be.
    let turn = tokio::time::timeout(PATIENCE, container.setting.lock()).await;
    let record = container.record();
    let mut verified = Verified {
        id: record.key.id.clone(),
        name: record.container.name.clone(),
        engine: record.maker.engine.clone(),
        ..Verified::default()
    };
    if turn.is_err() {
        verified.error = Some("an update of it does not end".to_owned());
    } else if record.phase == Phase::Stopped || record.process_is_gone() {
        verified.error = Some("its process has ended".to_owned());
    } else if let Some(place) = cgroups::place(&record) {
        let plan = nri_cgroup::plan(&record.in_force, &place);
        verified.settings =
            plan.writes.iter().filter_map(|setting| look(setting, &record)).collect();
        verified.nowhere = plan.unsupported;
    } else {
        verified.error = Some("its control groups are not known".to_owned());
    }
    verified
}

fn look(setting: &nri_cgroup::CgroupWrite, record: &Record) -> Option<VerifiedSetting> {
    let file = cgroups::file(setting)?;
    let found = cgroups::found(setting);
    let owner = owners::owner(&record.owners, &setting.field);
    let in_force = cgroups::compare(std::slice::from_ref(setting)).is_empty();
    // Older runtimes leave such a file alone (reservations of huge pages): for the engine nobody
    // writes it.
    if setting.is_optional && (found.is_err() || (owner.is_none() && !in_force)) {
        return None;
    }
    Some(VerifiedSetting {
        field: setting.field.clone(),
        file: file.as_os_str().into(),
        wanted: setting.effective.to_string(),
        in_force,
        found: found.map_err(|e| e.to_string()),
        owner,
    })
}
