//! `[pods]`: what plugins see of pods where the engine has none as Kubernetes has them.

use serde::Deserialize;

/// `[pods]`: pods of engines without Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PodSettings {
    /// Namespace of pods that have none from their engine.
    pub namespace: String,
    /// Prefixes of the keys of labels that are annotations, too.
    #[serde(alias = "annotations-from-labels")]
    pub annotations_from_labels: Vec<String>,
}

impl Default for PodSettings {
    fn default() -> Self {
        Self { namespace: "default".to_owned(), annotations_from_labels: Vec::new() }
    }
}
