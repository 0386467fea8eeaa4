//! Mistakes in files of rules, and their places.

use crate::{expression::ExpressionError, quantity::QuantityError, rule::Place};

/// Error of a file. Its text begins with line and column.
#[derive(Debug, thiserror::Error)]
#[error("line {}, column {}: {error}", place.line, place.column)]
pub(crate) struct LoadError {
    /// Where it is.
    pub place: Place,
    /// What is wrong.
    pub error: Mistake,
}

/// What is wrong with a file.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum Mistake {
    /// Nothing: to go on would let every container pass that the rules are there to refuse.
    #[error(
        "there is no file of rules, or it is empty: a file without rules has the line `rules: []`"
    )]
    Empty,
    /// Not YAML, or not a file of rules.
    #[error("{0}")]
    Form(String),
    /// An expression.
    #[error("rule {rule:?}: {error}")]
    #[allow(missing_docs)]
    Expression { rule: String, error: ExpressionError },
    /// An amount.
    #[error("rule {rule:?}: {field}: {error}")]
    #[allow(missing_docs)]
    Amount { rule: String, field: String, error: QuantityError },
    /// A value that the field cannot have.
    #[error("rule {rule:?}: {field}: {reason}")]
    #[allow(missing_docs)]
    Value { rule: String, field: String, reason: &'static str },
    /// Two rules of one name.
    #[error("rule {rule:?}: the rule of line {line} has this name, too")]
    #[allow(missing_docs)]
    Name { rule: String, line: usize },
    /// A rule that does nothing.
    #[error("rule {0:?} does nothing: give it an action, such as set, add or refuse")]
    NoAction(String),
    /// Two rules set a field of the same containers to different values.
    #[error(
        "rule {rule:?} sets {field}, and so does rule {other:?} of line {line} for all of these \
         containers: remove one, or write override: true"
    )]
    #[allow(missing_docs)]
    Conflict { rule: String, field: String, other: String, line: usize },
    /// A smallest value above a largest one.
    #[error("rule {rule:?}: at_least of {field} is above at_most of rule {other:?} of line {line}")]
    #[allow(missing_docs)]
    Bounds { rule: String, field: String, other: String, line: usize },
    /// A fact that the runtime does not give.
    #[error("rule {rule:?} uses {fact}, {missing}")]
    #[allow(missing_docs)]
    Fact { rule: String, fact: &'static str, missing: String },
    /// A look-up of an entry that a container may not have.
    #[error(
        "rule {rule:?}: {part} reads {entry}, and fails for a container without it, which is then \
         refused: {hint}"
    )]
    #[allow(missing_docs)]
    Unguarded { rule: String, part: String, entry: String, hint: String },
    /// A name that no container has.
    #[error("rule {rule:?}: {part} reads {name}, which no container has: there are {all}")]
    #[allow(missing_docs)]
    UnknownName { rule: String, part: String, name: String, all: String },
    /// An operator or a function with values that it is not for.
    #[error("rule {rule:?}: {part} {what}{hint}")]
    #[allow(missing_docs)]
    Types { rule: String, part: String, what: String, hint: String },
    /// An amount of memory that is a number without its unit.
    #[error(
        "rule {rule:?}: {field} of {bytes} is {bytes} bytes, with which no process starts: write \
         an amount with its unit, such as 512Mi"
    )]
    #[allow(missing_docs)]
    Tiny { rule: String, field: String, bytes: i64 },
    /// More than can be handled.
    #[error("{0}")]
    TooLarge(String),
    /// The file cannot be read in a thread of its own.
    #[error("the file cannot be read: {0}")]
    Thread(String),
}

/// Returns an error at a place.
pub(crate) fn at(place: Place, error: Mistake) -> LoadError {
    LoadError { place, error }
}

impl From<serde_saphyr::Location> for Place {
    fn from(location: serde_saphyr::Location) -> Self {
        let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        Self { line: number(location.line()), column: number(location.column()) }
    }
}
