//! `[containers]`: what plugins see of containers beyond the protocol.

use crate::reference::section;
use serde::Deserialize;

section! {
    /// What plugins see of containers beyond the fields of the protocol; see [for authors of
    /// plugins](plugin-authors.md#facts-that-the-protocol-does-not-have). A reload takes changes,
    /// for containers that are created from then on.
    #[section("[containers]", "Facts about containers")]
    #[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct ContainerSettings {
        /// The annotations `facts.nri-container-runtime/NAME` that each container has. [The names
        /// and their values](plugin-authors.md#facts-that-the-protocol-does-not-have) are described
        /// for authors of plugins. Engines, users and images cannot set them: plugins see no other
        /// annotation with the prefix `facts.nri-container-runtime/`, whether or not facts are
        /// listed. `host_namespaces` and `mount_sources` look up paths on the host, in a process
        /// that is started for each creation; the others are taken from `config.json`.
        #[key(
            List(
                "List of `\"capabilities\"`, `\"device_access\"`, `\"engine\"`, \
                 `\"host_namespaces\"`, `\"mount_sources\"`, `\"privileged\"`, `\"seccomp\"`, \
                 `\"unprotected_paths\"`"
            ),
            Value("[]"),
            "[\"engine\", \"privileged\"]"
        )]
        pub facts: Vec<ContainerFact>,
    }
}

/// A fact about a container that plugins can receive as an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainerFact {
    /// The capabilities in any set of the container's process.
    Capabilities,
    /// The devices that the device rules allow, and how.
    DeviceAccess,
    /// The engine that created the container.
    Engine,
    /// The namespaces of the host in which the container is.
    HostNamespaces,
    /// The files of the host that the container's mounts show.
    MountSources,
    /// Whether the container has CAP_SYS_ADMIN, and all devices of a kind.
    Privileged,
    /// Whether a seccomp filter denies what those of engines do by default.
    Seccomp,
    /// Paths of the kernel that engines protect by default, and this container does not.
    UnprotectedPaths,
}

impl ContainerFact {
    /// Returns the name of the fact in the configuration, and in its annotation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Capabilities => "capabilities",
            Self::DeviceAccess => "device_access",
            Self::Engine => "engine",
            Self::HostNamespaces => "host_namespaces",
            Self::MountSources => "mount_sources",
            Self::Privileged => "privileged",
            Self::Seccomp => "seccomp",
            Self::UnprotectedPaths => "unprotected_paths",
        }
    }
}
