//! Reasons why a container is refused.

use crate::expression::EvaluationError;

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
         section [containers] of its configuration, as in facts = [{fact:?}] in config.toml; if it \
         is there, the log of nrid says why it is unknown of this container"
    )]
    #[allow(missing_docs)]
    NoFact { rule: String, fact: &'static str },
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
