//! `[containers]`: what plugins see of containers beyond the protocol.

use serde::Deserialize;

/// `[containers]`: facts about containers that the protocol has no fields for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContainerSettings {
    /// Facts that plugins receive as annotations.
    pub facts: Vec<ContainerFact>,
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
