//! Entries of a container's maps as expressions name them: `labels["team"]`, `env.TEAM`,
//! `requested.memory.limit`.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};
use std::fmt::{self, Display, Write};

/// Variables of macros around an expression.
#[derive(Debug, Clone, Default)]
pub(crate) struct Declared<'a>(Vec<Variable<'a>>);

/// A variable of a macro, or of the entry that an expression chooses.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub(crate) struct Variable<'a> {
    pub name: &'a str,
    /// The members of its value, where they are always the same ones.
    pub members: Option<&'static [&'static str]>,
}

impl<'a> Declared<'a> {
    /// Adds a variable, which hides others of its name.
    #[must_use]
    pub(crate) fn with(&self, variable: Variable<'a>) -> Self {
        Self(self.0.iter().copied().chain([variable]).collect())
    }

    /// Returns the variable of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Variable<'a>> {
        self.0.iter().rfind(|variable| variable.name == name)
    }
}

/// A variable of the container, and the keys by which an expression goes on from it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Path {
    variable: String,
    keys: Vec<Key>,
}

/// A key of a map.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// A text.
    Constant(String),
    /// An expression, as CEL writes it; `None` if it has a form that this module cannot write.
    Computed(Option<String>),
}

impl Path {
    /// Returns the path of an entry of this map.
    pub(crate) fn member(mut self, name: &str) -> Self {
        self.keys.push(Key::Constant(name.to_owned()));
        self
    }

    /// Returns the path of the entry whose key is the value of a variable.
    pub(crate) fn of_variable(mut self, variable: &str) -> Self {
        self.keys.push(Key::Computed(Some(variable.to_owned())));
        self
    }

    /// Returns the variable, and the keys as far as they are constant.
    pub(crate) fn names(&self) -> (&str, Vec<&str>) {
        let names = self.keys.iter().map_while(|key| match key {
            Key::Constant(name) => Some(name.as_str()),
            Key::Computed(_) => None,
        });
        (&self.variable, names.collect())
    }

    /// Whether this is a map whose keys whoever creates the container chooses, or one of the
    /// requested resources, which has only those with a value.
    pub(crate) fn is_open(&self) -> bool {
        match (self.variable.as_str(), self.keys.as_slice()) {
            ("labels" | "annotations" | "env" | "requested", []) | ("requested", [_]) => true,
            ("pod", [Key::Constant(name)]) => name == "labels" || name == "annotations",
            _ => false,
        }
    }

    /// Returns the entries on the way to this one, and itself, whose maps may not have them.
    pub(crate) fn uncertain(&self) -> impl Iterator<Item = Self> {
        let part = |end| Self { variable: self.variable.clone(), keys: self.keys[..end].into() };
        (1..=self.keys.len()).filter(move |end| part(end - 1).is_open()).map(part)
    }

    /// Whether two paths with the same text are the same.
    pub(crate) fn is_comparable(&self) -> bool {
        !self.keys.contains(&Key::Computed(None))
    }

    /// Whether a key may depend on a variable.
    pub(crate) fn depends_on(&self, variable: &str) -> bool {
        self.keys.iter().any(|key| match key {
            Key::Constant(_) => false,
            Key::Computed(text) => text.as_ref().is_none_or(|text| text.contains(variable)),
        })
    }

    /// Returns the condition under which the entry is there.
    pub(crate) fn guard(&self) -> String {
        let mut map = self.clone();
        match map.keys.pop() {
            Some(key) if self.variable != "requested" => format!("{} in {map}", key.text()),
            _ => format!("has({self})"),
        }
    }

    /// Returns an expression for the entry, or an empty text; `None` if the entry is no text.
    pub(crate) fn or_empty(&self) -> Option<String> {
        let mut map = self.clone();
        let key = map.keys.pop().filter(|_| self.variable != "requested")?;
        Some(format!("{map}[?{}].orValue(\"\")", key.text()))
    }
}

impl Key {
    fn text(&self) -> String {
        match self {
            Self::Constant(text) => format!("{text:?}"),
            Self::Computed(text) => text.clone().unwrap_or_else(|| "…".to_owned()),
        }
    }
}

impl Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.variable)?;
        let is_map = |at: usize| self.variable != "pod" || at > 0;
        for (at, key) in self.keys.iter().enumerate() {
            match key {
                Key::Constant(name) if self.variable == "requested" || !is_map(at) => {
                    write!(f, ".{name}")?;
                }
                key => write!(f, "[{}]", key.text())?,
            }
        }
        Ok(())
    }
}

/// Returns the path of an expression; `None` if it is no entry of a variable of the container.
pub(crate) fn path(tree: &IdedExpr, declared: &Declared<'_>) -> Option<Path> {
    match &tree.expr {
        Expr::Ident(name) => {
            // A leading dot skips variables of macros.
            let (name, skips) = match name.strip_prefix('.') {
                Some(name) => (name, true),
                None => (name.as_str(), false),
            };
            let is_own = !name.starts_with('@') && (skips || declared.get(name).is_none());
            is_own.then(|| Path { variable: name.to_owned(), keys: Vec::new() })
        }
        Expr::Select(SelectExpr { operand, field, test: false }) => {
            Some(path(operand, declared)?.member(field))
        }
        Expr::Call(CallExpr { func_name, args, .. }) if func_name == operators::INDEX => {
            let [map, key] = args.as_slice() else { return None };
            path_of_entry(map, key, declared)
        }
        _ => None,
    }
}

/// Returns the path of the entry of a map with a key.
pub(crate) fn path_of_entry(
    map: &IdedExpr,
    key: &IdedExpr,
    declared: &Declared<'_>,
) -> Option<Path> {
    let mut path = path(map, declared)?;
    path.keys.push(match &key.expr {
        Expr::Literal(LiteralValue::String(text)) => Key::Constant(text.inner().to_owned()),
        _ => Key::Computed(text(key)),
    });
    Some(path)
}

/// Operators of numbers, in the form of the syntax tree.
const ARITHMETIC: [(&str, &str); 5] = [
    (operators::ADD, "+"),
    (operators::SUBSTRACT, "-"),
    (operators::MULTIPLY, "*"),
    (operators::DIVIDE, "/"),
    (operators::MODULO, "%"),
];

/// Returns an expression as CEL writes it; `None` for forms that are rarely keys or compared.
pub(crate) fn text(tree: &IdedExpr) -> Option<String> {
    match &tree.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Literal(LiteralValue::String(text)) => Some(format!("{:?}", text.inner())),
        Expr::Literal(LiteralValue::Int(number)) => Some(number.inner().to_string()),
        Expr::Literal(LiteralValue::Boolean(value)) => Some(value.inner().to_string()),
        Expr::Select(SelectExpr { operand, field, test: false }) => {
            Some(format!("{}.{field}", text(operand)?))
        }
        Expr::Call(call) => {
            let args: Option<Vec<_>> = call.args.iter().map(text).collect();
            let args = args?;
            let arithmetic = ARITHMETIC.iter().find(|(name, _)| *name == call.func_name);
            match (call.func_name.as_str(), call.target.as_deref(), args.as_slice()) {
                (operators::INDEX, None, [map, key]) => Some(format!("{map}[{key}]")),
                (operators::OPT_INDEX, None, [map, key]) => Some(format!("{map}[?{key}]")),
                (operators::OPT_SELECT, None, [map, name]) => {
                    Some(format!("{map}.?{}", name.trim_matches('"')))
                }
                (_, None, [left, right]) if let Some((_, operator)) = arithmetic => {
                    Some(format!("({left} {operator} {right})"))
                }
                (name, target, args) if name.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                    let mut called = String::new();
                    if let Some(target) = target {
                        write!(called, "{}.", text(target)?).ok()?;
                    }
                    Some(format!("{called}{name}({})", args.join(", ")))
                }
                _ => None,
            }
        }
        _ => None,
    }
}
