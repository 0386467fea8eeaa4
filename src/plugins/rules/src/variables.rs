//! The variables of an expression that a container has to have, and the members of them that it
//! names: not the variables that a macro such as `exists` declares.

use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedExpr};
use std::collections::BTreeSet;

/// What an expression names of a container.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// Variables.
    pub variables: BTreeSet<String>,
    /// Variables and their members, as in `pod.name`.
    pub members: BTreeSet<(String, String)>,
}

impl Names {
    /// Returns the names in an expression.
    pub(crate) fn of(expression: &IdedExpr) -> Self {
        let mut found = Self::default();
        visit(expression, &mut Vec::new(), &mut found);
        found
    }
}

/// Returns the name of a free variable; `declared` are the variables of macros.
fn free_variable<'a>(expression: &'a IdedExpr, declared: &[&str]) -> Option<&'a str> {
    let Expr::Ident(name) = &expression.expr else { return None };
    // CEL's own variables begin with `@`. A leading dot skips variables of macros.
    let name = name.trim_start_matches('.');
    (!name.starts_with('@') && !declared.contains(&name)).then_some(name)
}

/// Adds the names in an expression to `found`; `declared` are the variables of macros around it.
fn visit<'a>(expression: &'a IdedExpr, declared: &mut Vec<&'a str>, found: &mut Names) {
    match &expression.expr {
        Expr::Ident(_) => {
            found.variables.extend(free_variable(expression, declared).map(str::to_owned));
        }
        Expr::Call(call) => {
            let target = call.target.as_deref();
            target.into_iter().chain(&call.args).for_each(|part| visit(part, declared, found));
        }
        Expr::Comprehension(macro_call) => visit_macro(macro_call, declared, found),
        Expr::List(list) => list.elements.iter().for_each(|part| visit(part, declared, found)),
        Expr::Map(map) => map.entries.iter().for_each(|e| visit_entry(&e.expr, declared, found)),
        Expr::Struct(value) => {
            value.entries.iter().for_each(|e| visit_entry(&e.expr, declared, found));
        }
        Expr::Select(select) => {
            if let Some(variable) = free_variable(&select.operand, declared) {
                found.members.insert((variable.to_owned(), select.field.clone()));
            }
            visit(&select.operand, declared, found);
        }
        Expr::Literal(_) | Expr::Unspecified => {}
    }
}

fn visit_entry<'a>(entry: &'a EntryExpr, declared: &mut Vec<&'a str>, found: &mut Names) {
    match entry {
        EntryExpr::StructField(field) => visit(&field.value, declared, found),
        EntryExpr::MapEntry(entry) => {
            visit(&entry.key, declared, found);
            visit(&entry.value, declared, found);
        }
    }
}

fn visit_macro<'a>(call: &'a ComprehensionExpr, declared: &mut Vec<&'a str>, found: &mut Names) {
    visit(&call.iter_range, declared, found);
    visit(&call.accu_init, declared, found);
    let before = declared.len();
    declared.extend([call.iter_var.as_str(), call.accu_var.as_str()]);
    declared.extend(call.iter_var2.as_deref());
    for part in [&call.loop_cond, &call.loop_step, &call.result] {
        visit(part, declared, found);
    }
    declared.truncate(before);
}

#[cfg(test)]
mod tests {
    use super::*;
    use cel::Program;

    #[test]
    fn variables_of_macros_are_no_variables_of_the_container() {
        for (source, expected) in [
            ("a.exists(x, x == b)", vec!["a", "b"]),
            ("a.map(x, x.all(y, y == x && y == z)).size() > x", vec!["a", "x", "z"]),
            ("{a: [b, -c], 'd': e.f.g}", vec!["a", "b", "c", "e"]),
            ("has(a.b) ? a : 1", vec!["a"]),
        ] {
            let program = Program::compile(source).unwrap();
            let found = Names::of(program.expression()).variables;
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{source}");
        }
        let program = Program::compile("a.b.c == d && e.exists(a, has(a.x))").unwrap();
        let members = Names::of(program.expression()).members;
        assert_eq!(members, BTreeSet::from([("a".to_owned(), "b".to_owned())]));
    }
}
