//! The keeper of the containers, as the adaptation knows it: what plugins are synchronized with,
//! and what they may change at any time.

use crate::{
    host::classes,
    resources::{apply::By, capabilities::Versions},
    state::{
        container::Container, pod::PodStatus, record::Record, registry::Registry,
        status::ContainerStatus,
    },
};
use async_trait::async_trait;
use nri_adaptation::{ContainerManager, PluginStatus, Snapshot};
use nri_api::{
    PluginId,
    proto::{ContainerEviction, ContainerUpdate, PodSandbox},
};
use nri_config::{ClassSettings, Config, Enforce, Mode};
use std::{
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

/// What plugins' sessions need of us. It must not wait for a lane: lanes are held while plugins are
/// asked.
#[derive(Debug)]
pub struct Keeper {
    /// What is known.
    pub registry: Arc<Registry>,
    /// The runtimes' versions.
    pub versions: Versions,
    rules: RwLock<Arc<Rules>>,
}

/// What the configuration says of setting resources.
#[derive(Debug)]
pub struct Rules {
    /// Where classes come from.
    pub classes: ClassPlaces,
    /// What happens when control groups do not hold what plugins set.
    pub enforce: Enforce,
    /// Whether nothing is to change.
    pub shadow: bool,
}

impl Rules {
    /// As the configuration says.
    pub fn of(config: &Config) -> Self {
        let (classes, shadow) = (ClassPlaces::of(config), config.mode == Mode::Shadow);
        Self { classes, enforce: config.enforce, shadow }
    }
}

/// Where classes of block I/O and RDT come from.
#[derive(Debug, Clone)]
pub struct ClassPlaces {
    /// `[blockio]`
    pub blockio: ClassSettings,
    /// `[rdt]`
    pub rdt: ClassSettings,
    /// Mount point of resctrl.
    pub resctrl: PathBuf,
}

impl ClassPlaces {
    /// As the configuration says.
    pub fn of(config: &Config) -> Self {
        Self {
            blockio: config.blockio.clone(),
            rdt: config.rdt.clone(),
            resctrl: classes::RESCTRL.into(),
        }
    }

    /// For resolving names.
    pub fn sources(&self) -> classes::Sources<'_> {
        classes::Sources { blockio: &self.blockio, rdt: &self.rdt, resctrl: &self.resctrl }
    }
}

#[async_trait]
impl ContainerManager for Keeper {
    async fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for container in self.registry.all() {
            self.look_at_run(&container).await;
            let record = container.record();
            if record.status == ContainerStatus::Stopped || self.is_told_later(&record) {
                continue;
            }
            let (pod, message) = self.registry.messages(&container);
            add(&mut snapshot, pod);
            if !record.sandbox {
                snapshot.containers.push(message);
            }
        }
        // Pods that others were told of, and whose first container is still to come.
        for pod in self.registry.pods.all() {
            if pod.status == PodStatus::Running {
                add(&mut snapshot, pod.sandbox);
            }
        }
        snapshot
    }

    async fn update_containers(
        &self,
        plugin: &PluginId,
        updates: Vec<ContainerUpdate>,
        evictions: Vec<ContainerEviction>,
    ) -> Vec<ContainerUpdate> {
        let failed = self.set_all(updates, By::Plugin(plugin)).await;
        self.evict_all(evictions);
        failed.into_iter().map(|f| f.update).collect()
    }

    fn plugin_changed(&self, status: &PluginStatus) {
        let name =
            status.id.as_ref().map_or_else(|| "(not registered)".to_owned(), ToString::to_string);
        tracing::info!(plugin = name, state = ?status.state, pid = status.pid, error = status.last_error, "plugin");
    }
}

fn add(snapshot: &mut Snapshot, pod: PodSandbox) {
    if !snapshot.pods.iter().any(|p| p.id == pod.id) {
        snapshot.pods.push(pod);
    }
}

impl Keeper {
    /// A keeper of these containers.
    pub fn new(registry: Arc<Registry>, config: &Config) -> Self {
        Self {
            registry,
            versions: Versions::default(),
            rules: RwLock::new(Arc::new(Rules::of(config))),
        }
    }

    /// What holds now.
    pub fn rules(&self) -> Arc<Rules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on these hold.
    pub fn set_rules(&self, rules: Rules) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// Whether this is a sandbox whose pod will be told at its start: in the snapshot, it would be
    /// told twice.
    fn is_told_later(&self, record: &Record) -> bool {
        let pod = self.registry.pods.get(&record.pod_id);
        let told = pod.is_none_or(|pod| pod.status != PodStatus::New);
        record.sandbox && record.status < ContainerStatus::Running && !told
    }

    /// Without our hooks nobody reports the life of a container that was made by `run`: it is
    /// looked at when somebody wants to know.
    async fn look_at_run(&self, container: &Container) {
        let record: Record = container.record();
        if !record.by_run || record.hooked || record.pid.is_some() {
            return;
        }
        if let Ok(state) = record.runtime.state(&record.key.id).await {
            self.registry.change(container, |r| r.observe(&state));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{
        pod::{PodKind, PodRecord},
        store::Store,
    };

    #[tokio::test]
    async fn a_pod_is_there_from_its_telling_to_its_stop() {
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(Store::open(dir.path()).unwrap());
        for (id, status) in [
            ("b", PodStatus::Running),
            ("a", PodStatus::Running),
            ("stopped", PodStatus::Stopped),
            ("new", PodStatus::New),
        ] {
            let sandbox = PodSandbox { id: id.to_owned(), ..Default::default() };
            registry.pods.set(PodRecord { sandbox, kind: PodKind::SingleContainer, status });
        }
        let keeper = Keeper::new(Arc::new(registry), &Config::default());
        let snapshot = keeper.snapshot().await;
        assert_eq!(snapshot.pods.iter().map(|p| p.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }
}
