//! Which entries of a container's maps are there for certain, where a condition holds or does not.

use super::path::{Declared, Path, path, path_of_entry};
use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};
use std::collections::BTreeSet;

/// Entries that are there for certain.
#[derive(Debug, Clone, Default)]
pub(crate) struct Present(BTreeSet<Path>);

impl Present {
    /// Whether an entry is there for certain.
    pub(crate) fn has(&self, entry: &Path) -> bool {
        self.0.contains(entry)
    }

    /// Returns these entries and those of the other one.
    #[must_use]
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0).cloned().collect())
    }

    /// Returns the entries, in the body of a macro with this variable.
    #[must_use]
    pub(crate) fn without(&self, variable: &str) -> Self {
        Self(self.0.iter().filter(|entry| !entry.depends_on(variable)).cloned().collect())
    }

    /// Returns the entries that are there if a condition has a value. `None` if it never has.
    pub(crate) fn if_is(
        condition: &IdedExpr,
        value: bool,
        declared: &Declared<'_>,
    ) -> Option<Self> {
        let of = |condition, value| Self::if_is(condition, value, declared);
        let call = match &condition.expr {
            Expr::Call(call) => call,
            Expr::Literal(LiteralValue::Boolean(literal)) => {
                return (*literal.inner() == value).then(Self::default);
            }
            Expr::Select(select) if select.test && value => {
                let entry = path(&select.operand, declared).map(|map| map.member(&select.field));
                return Some(entry.into_iter().collect());
            }
            _ => return Some(Self::default()),
        };
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::LOGICAL_NOT, [inner]) => of(inner, !value),
            (operators::LOGICAL_AND, [left, right]) if value => {
                Some(of(left, true)?.and(&of(right, true)?))
            }
            (operators::LOGICAL_OR, [left, right]) if !value => {
                Some(of(left, false)?.and(&of(right, false)?))
            }
            (operators::LOGICAL_AND | operators::LOGICAL_OR, [left, right]) => {
                either(of(left, value), of(right, value))
            }
            (operators::CONDITIONAL, [condition, then, otherwise]) => {
                let both = |one: Option<Self>, other: Option<Self>| Some(one?.and(&other?));
                either(
                    both(of(condition, true), of(then, value)),
                    both(of(condition, false), of(otherwise, value)),
                )
            }
            _ => Some(of_call(call, value, declared).into_iter().collect()),
        }
    }
}

impl FromIterator<Path> for Present {
    fn from_iter<I: IntoIterator<Item = Path>>(entries: I) -> Self {
        Self(entries.into_iter().filter(Path::is_comparable).collect())
    }
}

/// Returns the entries that are there in both cases; a case that never happens does not count.
fn either(one: Option<Present>, other: Option<Present>) -> Option<Present> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Present(&one.0 & &other.0)),
        (one, other) => one.or(other),
    }
}

/// Returns the entry that is there if a call without an operator of conditions has this value.
fn of_call(call: &CallExpr, value: bool, declared: &Declared<'_>) -> Option<Path> {
    let (name, target) = (call.func_name.as_str(), call.target.as_deref());
    match (name, target, call.args.as_slice()) {
        (operators::IN, None, [key, map]) => {
            if let (Some((entry, default)), Expr::List(list)) =
                (with_default(key, declared), &map.expr)
            {
                let literals: Option<Vec<_>> = list.elements.iter().map(literal).collect();
                let has_default = literals?.contains(&default);
                return (has_default != value).then_some(entry);
            }
            value.then(|| path_of_entry(map, key, declared)).flatten()
        }
        (operators::EQUALS | operators::NOT_EQUALS, None, [left, right]) => {
            let is_equal = value == (name == operators::EQUALS);
            let sides = [(left, right), (right, left)];
            sides.into_iter().find_map(|(one, other)| {
                let (entry, default) = with_default(one, declared)?;
                ((literal(other)? == default) != is_equal).then_some(entry)
            })
        }
        ("hasValue", Some(optional), []) if value => optional_entry(optional, declared),
        _ => None,
    }
}

/// Returns the entry and the literal of `map[?key].orValue(literal)`.
fn with_default<'a>(
    tree: &'a IdedExpr,
    declared: &Declared<'_>,
) -> Option<(Path, &'a LiteralValue)> {
    let Expr::Call(call) = &tree.expr else { return None };
    match (call.func_name.as_str(), call.target.as_deref(), call.args.as_slice()) {
        ("orValue", Some(optional), [default]) => {
            Some((optional_entry(optional, declared)?, literal(default)?))
        }
        _ => None,
    }
}

/// Returns the entry of `map[?key]` and `map.?key`.
fn optional_entry(tree: &IdedExpr, declared: &Declared<'_>) -> Option<Path> {
    let Expr::Call(call) = &tree.expr else { return None };
    match (call.func_name.as_str(), call.args.as_slice()) {
        (operators::OPT_INDEX | operators::OPT_SELECT, [map, key]) => {
            path_of_entry(map, key, declared)
        }
        _ => None,
    }
}

fn literal(tree: &IdedExpr) -> Option<&LiteralValue> {
    match &tree.expr {
        Expr::Literal(literal) => Some(literal),
        _ => None,
    }
}
