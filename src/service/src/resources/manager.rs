//! [`ResourceManager`], which sets and checks the resources of all containers. Its methods are in
//! the files `enforce`, `capabilities`, `replaced` and `update`.

use crate::{
    audit::Audit,
    host::classes,
    resources::{known_host::KnownHost, versions::RuntimeVersions},
    state::registry::Registry,
};
use nri_config::{Config, Enforce, Mode};
use parking_lot::RwLock;
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Sets and checks resources. Its methods must not wait for a container lock: a verb holds the
/// lock while plugins handle the event, and a plugin may request an update meanwhile.
#[derive(Debug)]
pub struct ResourceManager {
    /// The known containers and pods.
    pub registry: Arc<Registry>,
    /// Versions of the low-level runtimes.
    pub versions: RuntimeVersions,
    /// The cached capabilities of this host.
    pub(super) known_host: KnownHost,
    /// The audit log.
    pub audit: Audit,
    policy: RwLock<Arc<ResourcePolicy>>,
    /// Number of values that were not effective, and could not be written.
    mismatches: AtomicU64,
}

/// The configuration of resources.
#[derive(Debug)]
pub struct ResourcePolicy {
    /// Definitions of block I/O and RDT classes.
    pub classes: ClassLocations,
    /// Reaction to control groups that do not hold the values of plugins.
    pub enforce: Enforce,
    /// Whether what plugins request is performed.
    pub mode: Mode,
}

impl ResourcePolicy {
    /// Returns the policy of a configuration.
    pub fn of(config: &Config) -> Self {
        Self { classes: ClassLocations::of(config), enforce: config.enforce, mode: config.mode }
    }
}

/// Files and directories that define block I/O and RDT classes.
#[derive(Debug, Clone)]
pub struct ClassLocations {
    /// File of the block I/O classes, if one is configured.
    pub blockio: Option<PathBuf>,
    /// File of the RDT classes, if one is configured.
    pub rdt: Option<PathBuf>,
    /// Mount point of resctrl.
    pub resctrl: PathBuf,
}

impl ClassLocations {
    /// Returns the files and directories of a configuration.
    pub fn of(config: &Config) -> Self {
        Self {
            blockio: config.blockio.config_file.clone(),
            rdt: config.rdt.config_file.clone(),
            resctrl: classes::RESCTRL.into(),
        }
    }

    /// Returns the sources from which class names are resolved.
    pub fn sources(&self) -> classes::Sources<'_> {
        let (blockio, rdt) = (self.blockio.as_deref(), self.rdt.as_deref());
        classes::Sources { blockio, rdt, resctrl: &self.resctrl }
    }
}

impl ResourceManager {
    /// Creates a manager of these containers.
    pub fn new(registry: Arc<Registry>, audit: Audit, config: &Config) -> Self {
        Self {
            registry,
            audit,
            versions: RuntimeVersions::default(),
            known_host: KnownHost::default(),
            policy: RwLock::new(Arc::new(ResourcePolicy::of(config))),
            mismatches: AtomicU64::new(0),
        }
    }

    /// Returns the number of values that were not effective, and could not be written.
    pub fn mismatches(&self) -> u64 {
        self.mismatches.load(Ordering::Relaxed)
    }

    /// Counts values that are not effective, and cannot be written.
    pub fn count_mismatches(&self, number: usize) {
        self.mismatches.fetch_add(number as u64, Ordering::Relaxed);
    }

    /// Returns the current policy.
    pub fn policy(&self) -> Arc<ResourcePolicy> {
        self.policy.read().clone()
    }

    /// Replaces the policy.
    pub fn set_policy(&self, policy: ResourcePolicy) {
        *self.policy.write() = Arc::new(policy);
    }
}
