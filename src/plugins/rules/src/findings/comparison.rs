//! What to write in place of a comparison of values of different types, or of numbers as texts.

use super::{
    path::text,
    types::Type::{self, Bool, List, Number, Text},
    wrong::Mismatch,
};
use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue};
use nri_values::{Letters, parse_size};

/// Returns the mismatch of an order of two texts of which one is a number in quotes.
pub(super) fn of_texts(
    operator: &str,
    left: (&IdedExpr, Type),
    right: (&IdedExpr, Type),
) -> Option<Mismatch> {
    if !operator.starts_with(['<', '>']) || (left.1, right.1) != (Text, Text) {
        return None;
    }
    let (one, other) = (text(left.0)?, text(right.0)?);
    let cure = match (literal(left.0), literal(right.0)) {
        (None, Some(limit)) => {
            format!("{} {operator} {limit}", number(left.0, conversion(limit)?)?)
        }
        (Some(limit), None) => {
            format!("{limit} {operator} {}", number(right.0, conversion(limit)?)?)
        }
        _ => return None,
    };
    let what =
        format!("compares {one} with {other} as texts, in whose order \"10\" is before \"9\"");
    Some(Mismatch { what, part: format!("{one} {operator} {other}"), cure: Some(cure) })
}

fn literal(tree: &IdedExpr) -> Option<&str> {
    match &tree.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

/// Returns the function that makes a number of texts like this one.
fn conversion(text: &str) -> Option<&'static str> {
    ["int", "double"].into_iter().find(|function| is_number(function, text))
}

/// Whether a function, such as `int`, makes a number of this text.
pub(super) fn is_number(function: &str, text: &str) -> bool {
    match function {
        "int" => text.parse::<i64>().is_ok(),
        "uint" => text.parse::<u64>().is_ok(),
        _ => text.parse::<f64>().is_ok_and(f64::is_finite),
    }
}

/// Returns the entry, and the text in its place where it is missing, of `entry.orValue("")`.
pub(super) fn default_of(tree: &IdedExpr) -> Option<(&IdedExpr, &str)> {
    let Expr::Call(CallExpr { func_name, target: Some(entry), args }) = &tree.expr else {
        return None;
    };
    match args.as_slice() {
        [default] if func_name == "orValue" => Some((entry, literal(default)?)),
        _ => None,
    }
}

/// Returns the call of a function that makes a number of a text. A container without the entry has
/// the number 0, where it had a text that is no number.
pub(super) fn number(tree: &IdedExpr, function: &str) -> Option<String> {
    match default_of(tree) {
        Some((entry, default)) if !is_number(function, default) => {
            Some(format!("{function}({}.orValue(\"0\"))", text(entry)?))
        }
        _ => Some(format!("{function}({})", text(tree)?)),
    }
}

/// Returns a comparison of values of one type that may be meant.
pub(super) fn cure(
    operator: &str,
    left: (&IdedExpr, Type),
    right: (&IdedExpr, Type),
) -> Option<String> {
    let (one, other) = (text(left.0)?, text(right.0)?);
    if operator == "in" {
        return match (left.1, right.1) {
            (Text, Text) => Some(format!("{other}.contains({one})")),
            (_, kind) => Some(format!("{} in {other}", converted(left.0, kind.element())?)),
        };
    }
    let is_literal = |tree: &IdedExpr| matches!(tree.expr, Expr::Literal(_));
    let is_order = operator.starts_with(['<', '>']);
    match (left.1, right.1) {
        (Text, Number) if is_order && !is_literal(left.0) => {
            Some(format!("{} {operator} {other}", number(left.0, "int")?))
        }
        (Number, Text) if is_order && !is_literal(right.0) => {
            Some(format!("{one} {operator} {}", number(right.0, "int")?))
        }
        (List(Text), Text) if operator == "==" => Some(format!("{other} in {one}")),
        (Text, List(Text)) if operator == "==" => Some(format!("{one} in {other}")),
        (List(_), Text) | (Text, List(_)) => None,
        (kind, _) if is_literal(right.0) => {
            Some(format!("{one} {operator} {}", converted(right.0, kind)?))
        }
        (_, kind) if is_literal(left.0) => {
            Some(format!("{} {operator} {other}", converted(left.0, kind)?))
        }
        (Number | Bool, Text) => Some(format!("string({one}) {operator} {other}")),
        (Text, Number | Bool) => Some(format!("{one} {operator} string({other})")),
        _ => None,
    }
}

/// Returns a literal with the same text and another type.
fn converted(literal: &IdedExpr, kind: Type) -> Option<String> {
    let Expr::Literal(value) = &literal.expr else { return None };
    match (value, kind) {
        (LiteralValue::String(value), Number) => {
            let value = value.inner();
            let is_number = value.parse::<i64>().is_ok();
            let bytes = || parse_size(value, Letters::Decimal).ok().map(|n| n.to_string());
            if is_number { Some(value.to_owned()) } else { bytes() }
        }
        (LiteralValue::String(value), Bool) => {
            ["true", "false"].contains(&value.inner()).then(|| value.inner().to_owned())
        }
        (LiteralValue::Int(_) | LiteralValue::Boolean(_) | LiteralValue::Double(_), Text) => {
            Some(format!("{:?}", text(literal)?))
        }
        _ => None,
    }
}
