//! Expressions of the Common Expression Language (CEL). An
//! expression that names an unknown variable or has a syntax error is found when the file is read.

mod signs;
mod syntax;

pub(crate) use signs::signs;

use crate::{
    prepared::{FunctionError, Patterns, is_too_late, prepare},
    variables::Names,
};
use cel::{
    Context, Env, ExecutionError, Value,
    common::ast::{Expr, IdedExpr, LiteralValue},
    extensions,
};
use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
};

/// The variables of expressions. [`crate::facts`] has their values.
pub(crate) const VARIABLES: &[&str] = &[
    "annotations",
    "capabilities",
    "command",
    "container",
    "device_access",
    "devices",
    "engine",
    "env",
    "hooks",
    "host_namespaces",
    "image",
    "labels",
    "mount_sources",
    "mounts",
    "pod",
    "privileged",
    "requested",
    "seccomp",
    "unprotected_paths",
    "user",
];

/// The members of those variables that always have the same ones.
pub(crate) const MEMBERS: &[(&str, &[&str])] = &[
    ("container", &["id", "name"]),
    ("pod", &["annotations", "id", "labels", "name", "namespace", "uid"]),
    ("user", &["gid", "groups", "uid"]),
];

/// The variable of an expression that chooses entries of a list; see [`Expression::of_entry`].
pub(crate) const ENTRY: &str = "it";

/// Length of an expression in bytes, so that a broken file cannot occupy the parser for long.
const MAX_LENGTH: usize = 16 << 10;

/// Depth of brackets, and number of operators outside of texts. Parser and interpreter are
/// recursive: see [`crate::stack`].
const MAX_DEPTH: usize = 32;
const MAX_OPERATORS: usize = 200;

/// The functions of CEL, with the extension for texts (`split`, `replace`, `lowerAscii`, …).
pub(crate) static FUNCTIONS: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    // A conflict with the standard functions would be one of the library with itself.
    env.add_extension(extensions::strings).ok();
    Arc::new(env)
});

/// Error of the text of an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExpressionError {
    /// Syntax error.
    #[error("{message} (at column {column} of the expression's line {line})")]
    Syntax {
        /// What is wrong.
        message: String,
        /// Line in the expression, from 1.
        line: usize,
        /// Column in that line, from 1.
        column: usize,
    },
    /// A variable that no container has.
    #[error("unknown variable {0:?}: there are {all}", all = VARIABLES.join(", "))]
    UnknownVariable(String),
    /// A member that its variable does not have.
    #[error("unknown {variable}.{member}: {variable} has {}", .all.join(", "))]
    UnknownMember {
        /// The variable.
        variable: String,
        /// The member.
        member: String,
        /// The members of the variable.
        all: &'static [&'static str],
    },
    /// A call of a function.
    #[error(transparent)]
    Function(#[from] FunctionError),
    /// The expression is too long.
    #[error("expression of {0} bytes: at most {MAX_LENGTH} are allowed")]
    TooLong(usize),
    /// The expression is too complex.
    #[error(
        "expression too complex: more than {MAX_DEPTH} brackets in brackets, or {MAX_OPERATORS} \
         operators"
    )]
    TooComplex,
    /// A value that is never true or false, where a condition is expected.
    #[error("no condition: {0} is a value; compare it, as in {0} == \"…\"")]
    NoCondition(String),
    /// `${` without `}`.
    #[error("\"${{\" without \"}}\": write \"$${{\" for the text itself")]
    Unclosed,
}

/// Error of the evaluation of an expression for a container.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EvaluationError {
    /// The container does not have the variable.
    #[error("{0} is not known of this container")]
    NoVariable(String),
    /// The evaluation took too long.
    #[error("the evaluation of the rules takes too long: are there macros in macros?")]
    TooLong,
    /// A map does not have the key.
    #[error("no such key: {0}")]
    NoKey(String),
    /// A function such as `int` does not take a text for a number.
    #[error("{function}() of a text that is no {kind}", kind = kind_of_number(function))]
    NoNumber {
        /// Name of the function.
        function: String,
    },
    /// CEL's own error.
    #[error("{0}")]
    Failed(String),
    /// The value has another type than the place needs.
    #[error("the expression is {found}, expected {expected}")]
    Type {
        /// Type of the value.
        found: &'static str,
        /// Types that are possible.
        expected: &'static str,
    },
}

/// Returns what a function makes of a text.
fn kind_of_number(function: &str) -> &'static str {
    if function == "double" { "number" } else { "whole number" }
}

/// An expression without syntax errors.
#[derive(Debug)]
pub(crate) struct Expression {
    source: String,
    tree: IdedExpr,
    variables: BTreeSet<String>,
    patterns: Patterns,
}

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    /// See [`ExpressionError`].
    pub(crate) fn parse(source: &str) -> Result<Self, ExpressionError> {
        Self::with_variables(source, &[])
    }

    /// Reads an expression that chooses entries of a list: it has the variable [`ENTRY`], too.
    ///
    /// # Errors
    /// See [`ExpressionError`].
    pub(crate) fn of_entry(source: &str) -> Result<Self, ExpressionError> {
        Self::with_variables(source, &[ENTRY])
    }

    fn with_variables(source: &str, own: &[&str]) -> Result<Self, ExpressionError> {
        if source.len() > MAX_LENGTH {
            return Err(ExpressionError::TooLong(source.len()));
        }
        if is_too_complex(source) {
            return Err(ExpressionError::TooComplex);
        }
        let program = FUNCTIONS.compile(source).map_err(|errors| {
            let first = errors.errors.first();
            let position = |at: isize| usize::try_from(at).unwrap_or(1).max(1);
            let line = position(first.map_or(1, |e| e.pos.0));
            let column = position(first.map_or(1, |e| e.pos.1));
            let message = first.map_or("invalid", |e| &e.msg);
            ExpressionError::Syntax {
                message: syntax::message(message, source, line, column),
                line,
                column,
            }
        })?;
        let mut tree = program.expression().clone();
        let mut patterns = Patterns::new();
        prepare(&mut tree, &mut patterns)?;
        let Names { variables, members } = Names::of(&tree);
        let is_known = |name: &str| VARIABLES.contains(&name) || own.contains(&name);
        if let Some(name) = variables.iter().find(|name| !is_known(name)) {
            return Err(ExpressionError::UnknownVariable(name.clone()));
        }
        for (variable, member) in members {
            let known = MEMBERS.iter().find(|(name, _)| *name == variable);
            if let Some((_, all)) = known.filter(|(_, all)| !all.contains(&member.as_str())) {
                return Err(ExpressionError::UnknownMember { variable, member, all });
            }
        }
        Ok(Self { source: source.to_owned(), tree, variables, patterns })
    }

    /// Returns the expression if it can be a condition: its value is not known to be no bool.
    ///
    /// # Errors
    /// [`ExpressionError::NoCondition`]
    pub(crate) fn condition(self) -> Result<Self, ExpressionError> {
        if can_be_bool(&self.tree.expr) {
            Ok(self)
        } else {
            Err(ExpressionError::NoCondition(self.source))
        }
    }

    /// Returns the text.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Returns the syntax tree.
    pub(crate) fn tree(&self) -> &IdedExpr {
        &self.tree
    }

    /// Returns the variables that the expression names.
    pub(crate) fn variables(&self) -> &BTreeSet<String> {
        &self.variables
    }

    /// Returns the constant patterns of `matches` in the expression.
    pub(crate) fn patterns(&self) -> &Patterns {
        &self.patterns
    }

    /// Evaluates the expression.
    ///
    /// # Errors
    /// See [`EvaluationError`].
    pub(crate) fn evaluate(&self, context: &Context<'_, '_>) -> Result<Value, EvaluationError> {
        Value::resolve(&self.tree, context).map_err(|error| match error {
            error if is_too_late(&error) => EvaluationError::TooLong,
            ExecutionError::UndeclaredReference(name) if VARIABLES.contains(&name.as_str()) => {
                EvaluationError::NoVariable(name.to_string())
            }
            ExecutionError::NoSuchKey(key) => EvaluationError::NoKey(key.to_string()),
            ExecutionError::FunctionError { function, message }
                if message.starts_with("string parse error: ") =>
            {
                EvaluationError::NoNumber { function }
            }
            error => EvaluationError::Failed(error.to_string()),
        })
    }

    /// Evaluates a condition.
    ///
    /// # Errors
    /// See [`EvaluationError`].
    pub(crate) fn is_true(&self, context: &Context<'_, '_>) -> Result<bool, EvaluationError> {
        match self.evaluate(context)? {
            Value::Bool(value) => Ok(value),
            other => Err(EvaluationError::Type { found: type_name(&other), expected: "a bool" }),
        }
    }
}

/// Returns the name of a value's type, with its article.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::List(_) => "a list",
        Value::Map(_) => "a map",
        Value::Int(_) | Value::UInt(_) => "an int",
        Value::Float(_) => "a double",
        Value::String(_) => "a string",
        Value::Bytes(_) => "bytes",
        Value::Bool(_) => "a bool",
        Value::Null => "null",
        _ => "of another type",
    }
}

/// Whether an expression may have more levels than the parser's stack allows.
fn is_too_complex(source: &str) -> bool {
    let (mut depth, mut deepest, mut operators) = (0_usize, 0, 0);
    for (_, sign) in signs(source) {
        match sign {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ if "+-*/%!?<>=&|.".contains(sign) => operators += 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest > MAX_DEPTH || operators > MAX_OPERATORS
}

/// Whether the value of an expression can be a bool. Of all variables and their members, only
/// `privileged` is one, and amounts of `requested` may be.
fn can_be_bool(expression: &Expr) -> bool {
    match expression {
        Expr::Literal(value) => matches!(value, LiteralValue::Boolean(_)),
        Expr::List(_) | Expr::Map(_) | Expr::Struct(_) => false,
        Expr::Ident(name) => name == "privileged" || !VARIABLES.contains(&name.as_str()),
        // `has(a.b)` is a selection that is tested.
        Expr::Select(select) if !select.test => match &select.operand.expr {
            Expr::Ident(name) => name == "requested" || !VARIABLES.contains(&name.as_str()),
            Expr::Select(_) => can_be_bool(&select.operand.expr),
            _ => true,
        },
        _ => true,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::prepared::add_functions;
    use crate::stack::with_stack;
    use std::time::{Duration, Instant};

    pub(crate) fn context() -> Context<'static, 'static> {
        let mut context = Context::with_env(FUNCTIONS.clone());
        let deadline = Instant::now() + Duration::from_millis(300);
        add_functions(&mut context, Arc::default(), deadline);
        context.add_variable_from_value("image", "registry/app:1");
        context.add_variable_from_value("command", vec!["a", "b"]);
        context
    }

    #[test]
    fn conditions_have_the_functions_of_cel_and_of_its_extension_for_texts() {
        for (source, expected) in [
            ("image.startsWith('registry/')", true),
            ("image.split(':')[1] == '1'", true),
            ("command.exists(c, c == 'b')", true),
            ("command.all(c, command.exists(d, d == c && c != 'a'))", false),
            ("image.matches('^[a-z]+/app')", true),
            ("matches(image, image.substring(0, 4))", true),
            ("command.map(c, c + c).filter(d, d != 'aa') == ['bb']", true),
            ("{'a': 1}[?'b'].orValue(2) == 2", true),
            // An element whose condition fails does not decide, but another one may.
            ("command.exists(c, c == 'a' ? 1 / 0 == 1 : c == 'b')", true),
            ("command.all(c, c == 'a' ? 1 / 0 == 1 : c == 'a')", false),
            ("[].exists(c, c == 1) || ![].all(c, c == 1)", false),
            ("[1, 2].exists(c, [c].all(d, d == 2))", true),
        ] {
            let expression = Expression::parse(source).unwrap();
            assert_eq!(expression.is_true(&context()), Ok(expected), "{source}");
        }
        let fails = Expression::parse("command.exists(c, c == 'a' ? 1 / 0 == 1 : false)").unwrap();
        assert!(matches!(fails.is_true(&context()), Err(EvaluationError::Failed(_))));
        let expression = Expression::of_entry("it == image").unwrap();
        assert_eq!(expression.variables().len(), 2);
    }

    #[test]
    fn errors_of_an_expression_are_found_before_a_container() {
        let error = |source: &str| Expression::parse(source).unwrap_err();
        assert!(matches!(error("image =="), ExpressionError::Syntax { line: 1, .. }));
        assert_eq!(error("imag == ''"), ExpressionError::UnknownVariable("imag".to_owned()));
        let assigned = error("image = 'x'").to_string();
        assert_eq!(assigned, "write == to compare (at column 7 of the expression's line 1)");
        for (source, expected) in [
            ("image == 'a' and privileged", "write && for and"),
            ("image == 'a' OR privileged", "write || for OR"),
            ("image == 'a' && not privileged", "write ! for not"),
            ("image is 'a'", "write == for is"),
            ("image == \"é\" not é", "unexpected"),
            ("é not é", "unexpected"),
            ("imageé x", "unexpected"),
            ("requested.memory.limit > 1Gi", "write 1073741824 for 1Gi"),
            ("1.5 GiB < 3", "unexpected 'GiB'"),
            ("requested.memory.limit > 512m", "no units, as in 512m: write a number"),
            ("image == 'a", "a text without the quote at its end"),
            ("privileged & true", "write && for &"),
            ("image ==", "the expression ends too early"),
            ("image == 'a' 'b'", "unexpected ''b''"),
            ("image ==\n'a'\nand true", "write && for and"),
        ] {
            let text = error(source).to_string();
            assert!(text.contains(expected) && !text.contains("expecting"), "{source}: {text}");
        }
        for (source, expected) in [
            ("image.startswith('a')", "did you mean startsWith?"),
            ("image.startWith('a')", "did you mean startsWith?"),
            ("command.exist(c, true)", "did you mean exists?"),
            ("image.lower()", "there are bool, "),
            ("command.exists(c)", "exists has another number of arguments"),
        ] {
            let text = error(source).to_string();
            assert!(text.contains(expected), "{source}: {text}");
        }
        let member = error("has(pod.lables.team) && container.name == ''").to_string();
        let expected = "unknown pod.lables: pod has annotations, id, labels, name, namespace, uid";
        assert_eq!(member, expected);
        assert_eq!(error("it == ''"), ExpressionError::UnknownVariable("it".to_owned()));
        for call in ["image.matches()", "matches(image)", "image.matches('a', 'b')"] {
            assert_eq!(error(call), ExpressionError::from(FunctionError::Matches), "{call}");
        }
        let pattern = error("image.matches('(')").to_string();
        assert_eq!(pattern, "invalid pattern \"(\": unclosed group");
        let large = error("image.matches('(a{1000}){1000}')");
        assert!(matches!(large, ExpressionError::Function(FunctionError::Pattern(_))), "{large}");
        assert_eq!(error(&" ".repeat(20_000)), ExpressionError::TooLong(20_000));
        assert_eq!(error(&"(".repeat(33)), ExpressionError::TooComplex);
        let no_text = Expression::parse("image.matches(1)").unwrap().is_true(&context());
        let expected = "Unexpected type: got 'int', want 'string'";
        assert_eq!(no_text, Err(EvaluationError::Failed(expected.to_owned())));
        let not_bool = Expression::parse("image").unwrap().is_true(&context());
        let expected = EvaluationError::Type { found: "a string", expected: "a bool" };
        assert_eq!(not_bool, Err(expected));
    }

    /// What findings tell to write for `labels["level"] > 3`.
    #[test]
    fn texts_are_converted_to_numbers_or_fail_with_the_reason() {
        let value = |source: &str| Expression::parse(source).unwrap().is_true(&context());
        for source in ["int('10') > 9", "3 < int('10')", "double('2.5') < 10.0"] {
            assert_eq!(value(source), Ok(true), "{source}");
        }
        for source in ["int('high') > 9", "int('') > 9"] {
            let error = value(source).unwrap_err().to_string();
            assert_eq!(error, "int() of a text that is no whole number", "{source}");
        }
        let error = value("double('x') > 9.5").unwrap_err().to_string();
        assert_eq!(error, "double() of a text that is no number");
        for source in ["image['a'] == ''", "image.a == ''", "1['a'] == 2", "command['a'] == ''"] {
            assert!(matches!(value(source), Err(EvaluationError::Failed(_))), "{source}");
        }
    }

    #[test]
    fn long_lists_of_images_are_not_too_complex() {
        let images: Vec<_> = (0..200).map(|n| format!("'registry.example.com/a-{n}'")).collect();
        let source = format!("image in [{}]", images.join(", "));
        assert_eq!(Expression::parse(&source).unwrap().is_true(&context()), Ok(false));
    }

    #[test]
    fn brackets_of_strings_do_not_count_and_others_do() {
        let brackets = "(".repeat(100);
        for string in [format!("r'{brackets}'"), format!("'''{brackets}'''")] {
            let source = format!("image == {string}");
            assert_eq!(Expression::parse(&source).unwrap().is_true(&context()), Ok(false));
        }
        let deep = format!("{}true{}", "(".repeat(40), ")".repeat(40));
        for start in
            [r"rb'\' + ' == ", "true // '\n && ", "{'a': 1}.`'` == 1 && ", r"r'\' == '' && "]
        {
            let error = Expression::parse(&format!("{start}{deep}")).unwrap_err();
            assert_eq!(error, ExpressionError::TooComplex, "{start}");
        }
    }

    #[test]
    fn an_evaluation_ends_in_time_however_deep_its_macros_are() {
        let list = format!("[{}]", ["1"; 100].join(","));
        for (macro_call, end) in [("map", "1"), ("exists", "false"), ("all", "true")] {
            let deep = |n: u32| format!("{list}.{macro_call}(x{n}, ");
            let source =
                format!("{}{end}{}", (0..10).map(deep).collect::<String>(), ")".repeat(10));
            let result = with_stack(|| Expression::parse(&source).unwrap().evaluate(&context()));
            assert_eq!(result.unwrap(), Err(EvaluationError::TooLong), "{source}");
        }
    }

    #[test]
    fn the_most_complex_expressions_need_no_more_stack_than_a_thread_has() {
        for source in [
            format!("{}true{}", "(".repeat(32), ")".repeat(32)),
            format!("{}true", "!".repeat(200)),
            format!("{}true", "true?".repeat(100).replace('?', " && ")),
            format!("1{} == 101", "+1".repeat(100)),
            format!("{}1{} == 1", "[".repeat(32), "]".repeat(32)),
            format!("{}true{}", "true ? ".repeat(200), ": false".repeat(200)),
            format!("{}true{}", "command.exists(c, ".repeat(32), ")".repeat(32)),
        ] {
            let result = with_stack(|| match Expression::parse(&source) {
                Ok(expression) => drop(expression.is_true(&context())),
                Err(error) => assert!(matches!(error, ExpressionError::Syntax { .. }), "{error}"),
            });
            result.unwrap_or_else(|error| panic!("{source}: {error}"));
        }
    }
}
