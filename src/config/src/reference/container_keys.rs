//! Keys of `[containers]`.

use super::types::{DefaultValue::Value, KeyDescription, KeyKind::List, SectionDescription};

/// The section `[containers]`.
pub(super) const CONTAINERS: SectionDescription = SectionDescription {
    header: "[containers]",
    title: "Facts about containers",
    text: "What plugins see of containers beyond the fields of the protocol; see [for authors of \
           plugins](plugin-authors.md#facts-that-the-protocol-does-not-have). A reload takes \
           changes, for containers that are created from then on.",
    keys: &[KeyDescription {
        name: "facts",
        kind: List("List of `\"engine\"`, `\"capabilities\"`, `\"privileged\"`"),
        default: Value("[]"),
        example: "[\"engine\", \"privileged\"]",
        text: "The annotations `facts.nri-container-runtime/engine`, `…/capabilities` and \
               `…/privileged`, of which each container has those that are listed here. Engines, \
               users and images cannot set them: plugins see no other annotation with the \
               prefix `facts.nri-container-runtime/`, whether or not facts are listed.",
    }],
};
