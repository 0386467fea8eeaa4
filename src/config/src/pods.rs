//! `[pods]`: what plugins see of pods where the engine has none as Kubernetes has them.

use crate::reference::section;
use serde::Deserialize;

section! {
    /// What plugins see of the pods of Docker, Podman, nerdctl, `ctr`, BuildKit and a shell; see
    /// [for authors of plugins](plugin-authors.md). Pods of Kubernetes stay as they are. A reload
    /// takes changes, for pods that start from then on.
    #[section("[pods]", "Pods of engines without Kubernetes")]
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct PodSettings {
        /// The namespace of these pods, since their engines have no namespaces of pods. Choose a
        /// name that Kubernetes does not use on this node, if plugins decide by namespaces.
        #[key(
            Text("Name of a namespace, or `\"\"`"),
            Value("\"default\""),
            "\"containers\""
        )]
        pub namespace: String = "default".to_owned(),
        /// Labels whose keys have one of these prefixes are annotations, too, of the container and
        /// of its pod, so that `docker run --label` and `labels` of Compose reach plugins that read
        /// annotations; `""` stands for all labels. An annotation of the same key takes precedence.
        /// Choose no prefix by which an image may not ask plugins for something: labels of an image
        /// are labels of its containers.
        #[key(
            List("List of prefixes of keys"),
            Value("[]"),
            "[\"devices.noderesource.dev/\"]"
        )]
        #[serde(alias = "annotations-from-labels")]
        pub annotations_from_labels: Vec<String> = Vec::new(),
    }
}
