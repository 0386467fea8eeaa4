//! The variables of an expression that a container has to have: not those that a macro such as
//! `exists` declares.

use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedExpr};
use std::collections::BTreeSet;

/// Returns the free variables of an expression.
pub(crate) fn free_variables(expression: &IdedExpr) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    visit(expression, &mut Vec::new(), &mut found);
    found
}

/// Adds the free variables of an expression to `found`; `declared` are those of macros around it.
fn visit<'a>(expression: &'a IdedExpr, declared: &mut Vec<&'a str>, found: &mut BTreeSet<String>) {
    match &expression.expr {
        Expr::Ident(name) => {
            // CEL's own variables begin with `@`. A leading dot skips variables of macros.
            let name = name.trim_start_matches('.');
            if !name.starts_with('@') && !declared.contains(&name) {
                found.insert(name.to_owned());
            }
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
        Expr::Select(select) => visit(&select.operand, declared, found),
        Expr::Literal(_) | Expr::Unspecified => {}
    }
}

fn visit_entry<'a>(
    entry: &'a EntryExpr,
    declared: &mut Vec<&'a str>,
    found: &mut BTreeSet<String>,
) {
    match entry {
        EntryExpr::StructField(field) => visit(&field.value, declared, found),
        EntryExpr::MapEntry(entry) => {
            visit(&entry.key, declared, found);
            visit(&entry.value, declared, found);
        }
    }
}

fn visit_macro<'a>(
    call: &'a ComprehensionExpr,
    declared: &mut Vec<&'a str>,
    found: &mut BTreeSet<String>,
) {
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
            let found = free_variables(program.expression());
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{source}");
        }
    }
}
