//! Reasons why a container is refused.

use crate::{expression::EvaluationError, facts::is_unknown};
use nri_plugin::proto::Container;

/// Reason why a container is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// The rule says so.
    #[error("rule {rule:?}: {message}")]
    #[allow(missing_docs)]
    ByRule { rule: String, message: String },
    /// An expression fails for this container.
    #[error("rule {rule:?}: {what}: {error}")]
    #[allow(missing_docs)]
    Evaluation { rule: String, what: String, error: EvaluationError },
    /// A rule reads an entry that this container does not have.
    #[error("rule {rule:?}: {part} reads {entry}, which this container does not have: {hint}")]
    #[allow(missing_docs)]
    Missing { rule: String, part: String, entry: String, hint: String },
    /// A rule needs a fact that the runtime does not give.
    #[error(
        "rule {rule:?} needs {fact:?}, which the runtime does not give: add it to facts in the \
         section [containers] of its configuration, as in facts = [{fact:?}] in config.toml"
    )]
    #[allow(missing_docs)]
    NoFact { rule: String, fact: &'static str },
    /// A rule needs a fact that the runtime gives, and could not find out of this container.
    #[error(
        "rule {rule:?} needs {fact:?}, which could not be found out of this container: the log of \
         nrid says why (fact unknown), such as a file system that hangs"
    )]
    #[allow(missing_docs)]
    UnknownFact { rule: String, fact: &'static str },
    /// The container sets what a rule sets or limits, in a way that cannot be compared.
    #[error(
        "rule {rule:?} sets or limits {field}, and the container requests {entry}, which sets the \
         same and cannot be compared with it"
    )]
    #[allow(missing_docs)]
    Incomparable { rule: String, field: String, entry: String },
    /// Two rules set a field to different values.
    #[error(
        "rule {rule:?} sets {field} to {value}, and rule {other:?} has set it to {before}: write \
         override: true, or let only one of them match"
    )]
    #[allow(missing_docs)]
    Conflict { rule: String, other: String, field: String, value: String, before: String },
    /// A device node that the host does not have.
    #[error("rule {rule:?} adds the device {path:?}: {error}")]
    #[allow(missing_docs)]
    Device { rule: String, path: String, error: String },
}

impl Refusal {
    /// Returns the refusal, with why the fact is missing that a rule needs of `container`.
    pub(crate) fn of(self, container: &Container) -> Self {
        match self {
            Self::NoFact { rule, fact } if is_unknown(fact, container) => {
                Self::UnknownFact { rule, fact }
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "add it to facts" led to a configuration that had it, while a file system hung.
    #[test]
    fn a_fact_that_could_not_be_found_out_is_not_one_that_is_not_configured() {
        let key = "facts.nri-container-runtime/unknown".to_owned();
        let annotations = [(key, "host_namespaces,mount_sources".to_owned())].into();
        let container = Container { annotations, ..Container::default() };
        let of = |fact: &'static str| {
            Refusal::NoFact { rule: "sock".to_owned(), fact }.of(&container).to_string()
        };
        for fact in ["host_namespaces", "mount_sources"] {
            let text = of(fact);
            assert!(text.contains("which could not be found out"), "{text}");
            assert!(!text.contains("add it to facts"), "{text}");
        }
        // Part of a name is not the name.
        for fact in ["privileged", "mount"] {
            assert!(
                of(fact).contains("which the runtime does not give: add it to facts"),
                "{fact}"
            );
        }
    }
}
