//! Members of values that have none: `mounts.source`, where `mounts` is a list.

use super::{
    path::text,
    types::{
        COMPARISONS, CONDITIONS, Scope,
        Type::{self, Bool, List, Map, Members, Number, Text},
    },
    wrong::{Mismatch, written},
};
use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};

/// A member of a value that has none.
struct Access<'a> {
    /// The value.
    of: &'a IdedExpr,
    kind: Type,
    /// The name of the member, or the text in the index, if it is constant.
    name: Option<&'a str>,
    /// How an expression has the member.
    written: String,
}

impl<'a> Access<'a> {
    fn new(tree: &'a IdedExpr, scope: &Scope<'_>) -> Option<Self> {
        let literal = |key: &'a IdedExpr| match &key.expr {
            Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
            _ => None,
        };
        let (of, name, written) = match &tree.expr {
            Expr::Select(select) => {
                let written = format!("{}.{}", written(&select.operand), select.field);
                (&*select.operand, Some(select.field.as_str()), written)
            }
            Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
                (operators::INDEX | operators::OPT_INDEX, [of, key])
                    if scope.of(of).name() != Some("a list") || scope.of(key) == Text =>
                {
                    (of, literal(key), written(tree))
                }
                (operators::OPT_SELECT, [of, key]) => (of, literal(key), written(tree)),
                _ => return None,
            },
            _ => return None,
        };
        let kind = scope.of(of);
        let has_none = matches!(kind, List(_) | Text | Number | Bool);
        has_none.then_some(Self { of, kind, name, written })
    }

    /// Returns the list, the variable for its elements, and an element's value that is meant.
    fn of_elements(&self) -> Option<(String, &'static str, String)> {
        let List(element) = self.kind else { return None };
        let list = text(self.of)?;
        let Members(all) = element else { return Some((list, "x", "x".to_owned())) };
        let variable = if list == "devices" { "d" } else { "m" };
        let own = self.name.filter(|own| all.iter().any(|(name, _)| name == own));
        let first = all.first().map(|(name, _)| *name);
        Some((list, variable, format!("{variable}.{}", own.or(first)?)))
    }

    fn mismatch(&self) -> Option<Mismatch> {
        let (of, kind, read) = (written(self.of), self.kind.name()?, &self.written);
        let what = match self.kind {
            List(_) => format!("reads {read}, but {of} is {kind}"),
            _ => format!("reads {read}, but {of} is {kind}, which has no members"),
        };
        let form = self.of_elements();
        let cure =
            form.map(|(list, variable, value)| format!("{list}.exists({variable}, {value} == …)"));
        Some(Mismatch { what, part: read.clone(), cure })
    }
}

/// Returns the mismatch of a member.
pub(super) fn of_access(tree: &IdedExpr, scope: &Scope<'_>) -> Option<Mismatch> {
    Access::new(tree, scope)?.mismatch()
}

/// Returns the mismatch of a key with points, as in `labels.com.example.team`, with the index that
/// is meant.
pub(super) fn of_key(select: &SelectExpr, scope: &Scope<'_>) -> Option<Mismatch> {
    let mut names = vec![select.field.as_str()];
    let mut map = &*select.operand;
    while let Expr::Select(SelectExpr { operand, field, test: false }) = &map.expr {
        if matches!(scope.of(map), Map(_)) {
            break;
        }
        names.insert(0, field);
        map = operand;
    }
    if names.len() < 2 || scope.of(map) != Map(&Text) {
        return None;
    }
    let (map, key) = (text(map)?, names.join("."));
    let what =
        format!("reads {map}.{key}, but {map}.{} is a text, which has no members", names.first()?);
    let (part, cure) = if select.test {
        (format!("has({map}.{key})"), format!("{key:?} in {map}"))
    } else {
        (format!("{map}.{key}"), format!("{map}[{key:?}]"))
    };
    Some(Mismatch { what, part, cure: Some(cure) })
}

/// Returns the mismatch of a comparison, or a function such as `startsWith`, with a member of the
/// elements of a list, with the macro that is meant.
pub(super) fn of_comparison(call: &CallExpr, scope: &Scope<'_>) -> Option<Mismatch> {
    let name = call.func_name.as_str();
    let (left, right) = match (call.target.as_deref(), call.args.as_slice()) {
        (None, [left, right]) if COMPARISONS.contains(&name) => (left, right),
        (Some(left), [right]) if CONDITIONS.contains(&name) => (left, right),
        _ => return None,
    };
    let (one, other) = (Access::new(left, scope), Access::new(right, scope));
    let (access, is_left) = match (one, other) {
        (Some(access), None) => (access, true),
        (None, Some(access)) => (access, false),
        _ => return None,
    };
    let (list, variable, value) = access.of_elements()?;
    // An entry that no element has, and a variable that the other side may mean.
    if !value.ends_with(&format!(".{}", access.name?)) || scope.declares(variable) {
        return None;
    }
    let operator = name.trim_matches('_').trim_start_matches('@');
    let join = |one: &str, other: &str| match call.target {
        Some(_) => format!("{one}.{name}({other})"),
        None => format!("{one} {operator} {other}"),
    };
    let both = |member: &str| {
        Some(if is_left { join(member, &text(right)?) } else { join(&text(left)?, member) })
    };
    let every = if name == operators::NOT_EQUALS { "all" } else { "exists" };
    let cure = format!("{list}.{every}({variable}, {})", both(&value)?);
    Some(Mismatch { part: both(&access.written)?, cure: Some(cure), ..access.mismatch()? })
}
