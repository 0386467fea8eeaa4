//! The syntax tree of an expression, prepared for its evaluation: each macro such as `exists` first
//! checks the time, constant patterns of `matches` are compiled, and unknown functions are found.
//!
//! An engine's user chooses how many variables, labels and mounts a container has. So macros in
//! macros could take longer than the runtime waits for the plugin, which would then create the
//! container without it.

use cel::{
    Context, ExecutionError, FunctionContext,
    common::{
        ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators},
        types::CelString,
        value::CowVal,
    },
};
use nri_values::nearest;
use regex::{Regex, RegexBuilder};
use std::{collections::BTreeMap, sync::Arc, time::Instant};

/// Patterns of `matches`, compiled.
pub(crate) type Patterns = BTreeMap<String, Regex>;

/// Size of a compiled pattern in bytes, so that `(a{1000}){1000}` is an error.
const MAX_PATTERN: usize = 4 << 20;

/// The function that macros call first. No expression can name it.
const IN_TIME: &str = "@in_time";

/// The function for regular expressions, which is not among the standard functions.
const MATCHES: &str = "matches";

/// The functions of CEL and of its extension for texts.
const FUNCTIONS: [&str; 29] = [
    "bool",
    "bytes",
    "charAt",
    "contains",
    "double",
    "dyn",
    "endsWith",
    "format",
    "hasValue",
    "indexOf",
    "int",
    "join",
    "lastIndexOf",
    "lowerAscii",
    MATCHES,
    "or",
    "orValue",
    "replace",
    "reverse",
    "size",
    "split",
    "startsWith",
    "string",
    "substring",
    "trim",
    "type",
    "uint",
    "upperAscii",
    "value",
];

/// The macros of CEL.
const MACROS: [&str; 6] = ["all", "exists", "exists_one", "filter", "has", "map"];

/// Returns the function that was meant, or all that there are.
fn meant(name: &str) -> String {
    let all = || FUNCTIONS.iter().chain(&MACROS).copied();
    let of_other_case = all().find(|known| known.eq_ignore_ascii_case(name));
    match of_other_case.or_else(|| nearest(name, all())) {
        Some(known) => format!(", did you mean {known}?"),
        None => format!(": there are {}", all().collect::<Vec<_>>().join(", ")),
    }
}

/// Error of a call in an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FunctionError {
    /// CEL does not have the function.
    #[error("unknown function {0:?}{hint}", hint = meant(.0))]
    Unknown(String),
    /// A macro such as `exists` with another number of arguments, which is a call for the parser.
    #[error("{name} has another number of arguments: list.exists(x, condition), has(a.b)")]
    Macro {
        /// Name of the macro.
        name: &'static str,
    },
    /// `matches` has another number of arguments.
    #[error("matches has a text and a pattern: text.matches(pattern)")]
    Matches,
    /// The pattern of `matches` is no regular expression.
    #[error("invalid pattern {0}")]
    Pattern(String),
}

/// Prepares a syntax tree, and adds its constant patterns.
///
/// # Errors
/// A function is unknown, or a pattern is invalid.
pub(crate) fn prepare(tree: &mut IdedExpr, patterns: &mut Patterns) -> Result<(), FunctionError> {
    match &mut tree.expr {
        Expr::Comprehension(macro_call) => {
            check_time(macro_call);
            simplify_loop(macro_call);
        }
        Expr::Call(call) => check_call(call, patterns)?,
        _ => {}
    }
    children(tree).into_iter().try_for_each(|child| prepare(child, patterns))
}

/// Lets a macro check the time before its first element.
fn check_time(macro_call: &mut ComprehensionExpr) {
    let init = std::mem::take(&mut macro_call.accu_init);
    let args = vec![call(init.id, IN_TIME, Vec::new()), init.clone(), init.clone()];
    macro_call.accu_init = call(init.id, operators::CONDITIONAL, args);
}

/// Replaces the condition under which `exists` and `all` go on, `@not_strictly_false(!@result)`:
/// the interpreter prepares an error for each `!`, which takes longer than a comparison. `@result`
/// is always a bool, since an element whose condition fails does not change it.
fn simplify_loop(macro_call: &mut ComprehensionExpr) {
    let Some(condition) = argument(&macro_call.loop_cond, operators::NOT_STRICTLY_FALSE) else {
        return;
    };
    let negated = argument(condition, operators::LOGICAL_NOT);
    let result = negated.unwrap_or(condition);
    if !matches!(&result.expr, Expr::Ident(name) if *name == macro_call.accu_var) {
        return;
    }
    let literal = |value: bool| IdedExpr {
        id: result.id,
        expr: Expr::Literal(LiteralValue::Boolean(value.into())),
    };
    macro_call.loop_cond = match negated {
        Some(_) => {
            let args = vec![result.clone(), literal(false), literal(true)];
            call(result.id, operators::CONDITIONAL, args)
        }
        None => result.clone(),
    };
}

/// Returns the argument of a call of a function that has one.
fn argument<'a>(tree: &'a IdedExpr, function: &str) -> Option<&'a IdedExpr> {
    match &tree.expr {
        Expr::Call(CallExpr { func_name, target: None, args }) if func_name == function => {
            args.first()
        }
        _ => None,
    }
}

fn call(id: u64, function: &str, args: Vec<IdedExpr>) -> IdedExpr {
    IdedExpr {
        id,
        expr: Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args }),
    }
}

fn check_call(call: &CallExpr, patterns: &mut Patterns) -> Result<(), FunctionError> {
    let name = call.func_name.as_str();
    let is_operator = !name.starts_with(|c: char| c.is_ascii_alphabetic());
    if let Some(name) = MACROS.into_iter().find(|known| *known == name) {
        return Err(FunctionError::Macro { name });
    }
    if !is_operator && !FUNCTIONS.contains(&name) {
        return Err(FunctionError::Unknown(name.to_owned()));
    }
    if name != MATCHES {
        return Ok(());
    }
    // The interpreter finds the number of arguments only when it calls the function.
    if call.target.iter().len() + call.args.len() != 2 {
        return Err(FunctionError::Matches);
    }
    if let Some(Expr::Literal(LiteralValue::String(text))) =
        call.args.last().map(|argument| &argument.expr)
    {
        let text = text.inner();
        let pattern = compile(text).map_err(FunctionError::Pattern)?;
        patterns.insert(text.to_owned(), pattern);
    }
    Ok(())
}

fn compile(pattern: &str) -> Result<Regex, String> {
    let compiled = RegexBuilder::new(pattern).size_limit(MAX_PATTERN).build();
    compiled.map_err(|error| match error {
        // The text has the pattern and a mark below it, in several lines.
        regex::Error::Syntax(text) => {
            let reason = text.lines().last().unwrap_or_default();
            format!("{pattern:?}: {}", reason.trim_start_matches("error: "))
        }
        error => format!("{pattern:?}: {error}"),
    })
}

/// Returns the parts of an expression.
fn children(tree: &mut IdedExpr) -> Vec<&mut IdedExpr> {
    match &mut tree.expr {
        Expr::Call(call) => call.target.as_deref_mut().into_iter().chain(&mut call.args).collect(),
        Expr::Comprehension(c) => vec![
            &mut c.iter_range,
            &mut c.accu_init,
            &mut c.loop_cond,
            &mut c.loop_step,
            &mut c.result,
        ],
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Map(map) => map.entries.iter_mut().flat_map(|e| of_entry(&mut e.expr)).collect(),
        Expr::Struct(value) => {
            value.entries.iter_mut().flat_map(|e| of_entry(&mut e.expr)).collect()
        }
        Expr::Select(select) => vec![&mut select.operand],
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Vec::new(),
    }
}

fn of_entry(entry: &mut EntryExpr) -> Vec<&mut IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&mut field.value],
        EntryExpr::MapEntry(entry) => vec![&mut entry.key, &mut entry.value],
    }
}

/// Adds the functions that prepared expressions call.
pub(crate) fn add_functions(
    context: &mut Context<'_, '_>,
    patterns: Arc<Patterns>,
    deadline: Instant,
) {
    let in_time = move || {
        if Instant::now() < deadline {
            Ok(true)
        } else {
            Err(ExecutionError::function_error(IN_TIME, "too late"))
        }
    };
    let matches = move |call: &FunctionContext<'_, '_>| {
        // Either `text.matches(pattern)` or `matches(text, pattern)`.
        let arguments: Vec<_> = call.this.iter().chain(&call.args).collect();
        let [text, pattern] = arguments.as_slice() else {
            return Err(ExecutionError::invalid_argument_count(2, arguments.len()));
        };
        let (text, pattern) = (string(text)?, string(pattern)?);
        let is_match = match patterns.get(pattern) {
            Some(compiled) => compiled.is_match(text),
            None => compile(pattern)
                .map_err(|reason| ExecutionError::function_error(MATCHES, reason))?
                .is_match(text),
        };
        Ok(is_match)
    };
    // No name of them is a standard function.
    context.add_function(IN_TIME, in_time).ok();
    context.add_function(MATCHES, matches).ok();
}

fn string<'a>(value: &'a CowVal<'_, '_>) -> Result<&'a str, ExecutionError> {
    let string = value.downcast_ref::<CelString<'_>>().map(|string| string.inner());
    string.ok_or_else(|| ExecutionError::UnexpectedType {
        got: value.get_type().name().to_owned(),
        want: "string".to_owned(),
    })
}

/// Whether an evaluation ended because it took too long.
pub(crate) fn is_too_late(error: &ExecutionError) -> bool {
    matches!(error, ExecutionError::FunctionError { function, .. } if function == IN_TIME)
}
