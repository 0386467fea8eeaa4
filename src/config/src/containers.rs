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
        /// The annotations `facts.nri-container-runtime/engine`, `…/capabilities` and
        /// `…/privileged`, of which each container has those that are listed here. Engines, users
        /// and images cannot set them: plugins see no other annotation with the prefix
        /// `facts.nri-container-runtime/`, whether or not facts are listed.
        #[key(
            List("List of `\"engine\"`, `\"capabilities\"`, `\"privileged\"`"),
            Value("[]"),
            "[\"engine\", \"privileged\"]"
        )]
        pub facts: Vec<ContainerFact>,
    }
}

/// A fact about a container that plugins can receive as an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContainerFact {
    /// The engine that created the container.
    Engine,
    /// The capabilities that the processes of the container can have.
    Capabilities,
    /// Whether the container is as engines make it with `--privileged`.
    Privileged,
}

impl ContainerFact {
    /// Returns the name of the fact in the configuration, and in its annotation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Capabilities => "capabilities",
            Self::Privileged => "privileged",
        }
    }
}
