//! Keys of `[pods]`.

use super::types::{
    DefaultValue::Value,
    KeyDescription,
    KeyKind::{List, Text},
    SectionDescription,
};

/// The section `[pods]`.
pub(super) const PODS: SectionDescription = SectionDescription {
    header: "[pods]",
    title: "Pods of engines without Kubernetes",
    text: "What plugins see of the pods of Docker, Podman, nerdctl, `ctr`, BuildKit and a shell; \
           see [for authors of plugins](plugin-authors.md). Pods of Kubernetes stay as they are. A \
           reload takes changes, for pods that start from then on.",
    keys: &[
        KeyDescription {
            name: "namespace",
            kind: Text("Name of a namespace, or `\"\"`"),
            default: Value("\"default\""),
            example: "\"containers\"",
            text: "The namespace of these pods, since their engines have no namespaces of pods. \
                   Choose a name that Kubernetes does not use on this node, if plugins decide by \
                   namespaces.",
        },
        KeyDescription {
            name: "annotations_from_labels",
            kind: List("List of prefixes of keys"),
            default: Value("[]"),
            example: "[\"devices.noderesource.dev/\"]",
            text: "Labels whose keys have one of these prefixes are annotations, too, of the \
                   container and of its pod, so that `docker run --label` and `labels` of \
                   Compose reach plugins that read annotations; `\"\"` stands for all labels. An \
                   annotation of the same key takes precedence. Choose no prefix by which an \
                   image may not ask plugins for something: labels of an image are labels of \
                   its containers.",
        },
    ],
};
