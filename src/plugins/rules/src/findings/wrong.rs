//! What is wrong with a part of an expression.

use super::path::text;
use cel::common::ast::IdedExpr;

/// An operator, a function or a member of values of types that it is not for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// What is wrong.
    pub what: String,
    /// The part of the expression, as CEL writes it.
    pub part: String,
    /// What to write in its place, if that is known.
    pub cure: Option<String>,
}

/// Returns a part as CEL writes it.
pub(super) fn written(tree: &IdedExpr) -> String {
    text(tree).unwrap_or_else(|| "an expression".to_owned())
}
