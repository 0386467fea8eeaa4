//! Operators and functions between values of different types: `user.uid == "0"` is never true, and
//! `requested.memory.limit > "1Gi"` fails for each container that has a limit.

use super::{
    comparison, members,
    path::text,
    types::{COMPARISONS, CONDITIONS, Scope, Type},
    wrong::{Mismatch, written},
};
use Type::{Bool, List, Map, Members, Number, Text};
use cel::common::ast::{CallExpr, Expr, IdedExpr, operators};

/// Returns the mismatches in an expression. `entry` is the type of [`crate::expression::ENTRY`].
pub(crate) fn mismatches(tree: &IdedExpr, entry: Type) -> Vec<Mismatch> {
    let mut found = Vec::new();
    visit(tree, &Scope::new(entry), &mut found);
    found
}

/// Functions of texts alone.
const OF_TEXTS: [&str; 8] =
    ["startsWith", "endsWith", "matches", CONTAINS, "lowerAscii", "upperAscii", "split", "trim"];

/// The function for a part of a text, which is taken for one that finds the elements of a list.
const CONTAINS: &str = "contains";

/// Functions that make a number of a text.
const CONVERSIONS: [&str; 3] = ["int", "uint", "double"];

fn visit<'a>(tree: &'a IdedExpr, scope: &Scope<'a>, found: &mut Vec<Mismatch>) {
    match &tree.expr {
        Expr::Call(call) => {
            if let Some(access) = members::of_comparison(call, scope) {
                found.push(access);
                return;
            }
            found.extend(mismatch(call, scope).or_else(|| members::of_access(tree, scope)));
            let parts = call.target.as_deref().into_iter().chain(&call.args);
            parts.for_each(|part| visit(part, scope, found));
        }
        Expr::Comprehension(call) => {
            visit(&call.iter_range, scope, found);
            let inner = scope.of_macro(call);
            visit(&call.loop_step, &inner, found);
        }
        Expr::Select(select) => {
            if let Some(key) = members::of_key(select, scope) {
                found.push(key);
                return;
            }
            found.extend(members::of_access(tree, scope));
            visit(&select.operand, scope, found);
        }
        Expr::List(list) => list.elements.iter().for_each(|part| visit(part, scope, found)),
        _ => {}
    }
}

fn mismatch(call: &CallExpr, scope: &Scope<'_>) -> Option<Mismatch> {
    let name = call.func_name.as_str();
    match (call.target.as_deref(), call.args.as_slice()) {
        (None, [left, right]) if COMPARISONS.contains(&name) => {
            let operator = name.trim_matches('_').trim_start_matches('@');
            let sides = (scope.of(left), scope.of(right));
            if !is_mismatch(name, sides) {
                return comparison::of_texts(operator, (left, sides.0), (right, sides.1));
            }
            let (one, other) = (written(left), written(right));
            let is_never = match name {
                operators::EQUALS | operators::IN => "which is never true",
                operators::NOT_EQUALS => "which is always true",
                _ => "which fails",
            };
            let (left_kind, right_kind) = (sides.0.name()?, sides.1.name()?);
            let what = match (name, sides.1) {
                (operators::IN, List(_) | Map(_) | Members(_) | Type::Requested(_)) => format!(
                    "looks up {one}, {left_kind}, in {other}, which has {}, {is_never}",
                    plural(sides.1.element())
                ),
                (operators::IN, _) => format!(
                    "looks up {one} in {other}, {right_kind} and no list or map, which fails"
                ),
                _ => format!("compares {one}, {left_kind}, with {other}, {right_kind}, {is_never}"),
            };
            let cure = comparison::cure(operator, (left, sides.0), (right, sides.1));
            Some(Mismatch { what, part: format!("{one} {operator} {other}"), cure })
        }
        (Some(target), _) if OF_TEXTS.contains(&name) => {
            let kind = scope.of(target);
            let kind_name = kind.name().filter(|_| kind != Text)?;
            let target = written(target);
            let what = format!("calls {name}, which is for texts, of {target}, {kind_name}");
            let args: Option<Vec<_>> = call.args.iter().map(text).collect();
            let called = args.map(|args| format!("{name}({})", args.join(", ")));
            let cure = called.as_ref().and_then(|called| match (kind, call.args.as_slice()) {
                (Number, _) => Some(format!("string({target}).{called}")),
                (List(_) | Map(_) | Members(_) | Type::Requested(_), [element])
                    if name == CONTAINS =>
                {
                    let is_other = is_mismatch(operators::IN, (scope.of(element), kind));
                    text(element).filter(|_| !is_other).map(|one| format!("{one} in {target}"))
                }
                (List(Text), _) => Some(format!("{target}.exists(x, x.{called})")),
                _ => None,
            });
            let part = format!("{target}.{}", called.unwrap_or_default());
            Some(Mismatch { what, part, cure: cure.filter(|_| CONDITIONS.contains(&name)) })
        }
        (None, [value]) if CONVERSIONS.contains(&name) => {
            let (entry, default) = comparison::default_of(value)?;
            if comparison::is_number(name, default) {
                return None;
            }
            let (entry, part) = (text(entry)?, format!("{name}({})", text(value)?));
            let what = format!(
                "converts {default:?}, which is no number, where {entry} is missing, which fails"
            );
            Some(Mismatch { what, part, cure: comparison::number(value, name) })
        }
        _ => None,
    }
}

/// Whether an operator compares values of types that are never equal or have no order.
fn is_mismatch(name: &str, (left, right): (Type, Type)) -> bool {
    let differ = |one: Type, other: Type| match (one.name(), other.name()) {
        (Some(one), Some(other)) => one != other,
        _ => false,
    };
    match name {
        operators::IN if matches!(right, Text | Number | Bool) => true,
        operators::IN => differ(left, right.element()),
        _ => differ(left, right),
    }
}

fn plural(kind: Type) -> &'static str {
    match kind {
        Text => "texts",
        Number => "numbers",
        Bool => "true and false",
        _ => "others",
    }
}
