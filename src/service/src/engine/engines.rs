//! [`Engines`]: what `nrid` keeps of the engines between requests.

use crate::{
    engine::{docker_names::DockerNames, own_nri::EngineNri},
    host::mount_namespace::MountNamespaces,
};

/// The engines.
#[derive(Debug, Default)]
pub struct Engines {
    /// Current names of Docker's containers.
    pub docker_names: DockerNames,
    /// Whether engines have their own NRI enabled.
    pub own_nri: EngineNri,
    /// Mount namespaces of engines, where they differ from that of `nrid`.
    pub namespaces: MountNamespaces,
}
