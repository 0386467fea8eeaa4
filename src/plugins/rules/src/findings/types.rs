//! Types of expressions.
//!
//! The types of literals, and of variables of the container, are known. All other expressions have
//! no type here, and nothing is said about them.

use crate::expression::ENTRY;
use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, operators};
use nri_api::{Access, RESOURCE_FIELDS};

/// Type of a value, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    /// A text.
    Text,
    /// A number.
    Number,
    /// True or false.
    Bool,
    /// A list with elements of this type.
    List(&'static Type),
    /// A map with values of this type.
    Map(&'static Type),
    /// A map whose members have a type each.
    Members(&'static [(&'static str, Type)]),
    /// The requested resources, or those of a controller.
    Requested(&'static str),
    /// Any other value.
    Unknown,
}

use Type::{Bool, List, Map, Members, Number, Text, Unknown};

const TEXTS: Type = List(&Text);
const LABELS: Type = Map(&Text);
const MOUNT: Type =
    Members(&[("source", Text), ("destination", Text), ("type", Text), ("options", TEXTS)]);
const DEVICE: Type =
    Members(&[("path", Text), ("type", Text), ("major", Number), ("minor", Number)]);
const ACCESS: Type =
    Members(&[("type", Text), ("major", Number), ("minor", Number), ("access", Text)]);
const SOURCE: Type = Members(&[
    ("destination", Text),
    ("source", Text),
    ("real", Text),
    ("writable", Bool),
    ("propagation", Text),
    ("kind", Text),
    ("type", Text),
]);
const NAMED: Type = Members(&[("name", Text), ("value", Text)]);

/// Types of the variables, whose values are in [`crate::facts`].
const VARIABLES: [(&str, Type); 20] = [
    ("annotations", LABELS),
    ("capabilities", TEXTS),
    ("command", TEXTS),
    ("container", Members(&[("id", Text), ("name", Text)])),
    ("device_access", List(&ACCESS)),
    ("devices", List(&DEVICE)),
    ("engine", Text),
    ("env", LABELS),
    ("hooks", TEXTS),
    ("host_namespaces", TEXTS),
    ("image", Text),
    ("labels", LABELS),
    ("mount_sources", List(&SOURCE)),
    ("mounts", List(&MOUNT)),
    (
        "pod",
        Members(&[
            ("annotations", LABELS),
            ("id", Text),
            ("labels", LABELS),
            ("name", Text),
            ("namespace", Text),
            ("uid", Text),
        ]),
    ),
    ("privileged", Bool),
    ("requested", Type::Requested("")),
    ("seccomp", Text),
    ("unprotected_paths", TEXTS),
    ("user", Members(&[("gid", Number), ("groups", List(&Number)), ("uid", Number)])),
];

impl Type {
    /// Returns the type of the entry that a condition of `strip` is evaluated for, by its members.
    pub(crate) fn of_entry(members: &[&str]) -> Self {
        let all = [MOUNT, DEVICE, NAMED];
        let has = |kind: &Self, name: &str| kind.member(name) != Unknown;
        all.into_iter().find(|kind| members.iter().all(|name| has(kind, name))).unwrap_or(Unknown)
    }

    /// Returns the type with its article; `None` if it is unknown.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Text => Some("a text"),
            Number => Some("a number"),
            Bool => Some("true or false"),
            List(_) => Some("a list"),
            Map(_) | Members(_) | Self::Requested(_) => Some("a map"),
            Unknown => None,
        }
    }

    /// Returns the type of a member or an entry with this key.
    pub(super) fn member(self, name: &str) -> Self {
        match self {
            Map(values) => *values,
            Members(all) => all.iter().find(|(own, _)| *own == name).map_or(Unknown, |(_, t)| *t),
            Self::Requested(group) => requested(group, name),
            _ => Unknown,
        }
    }

    /// Returns the type that `in` and macros see of the elements; those of a map are its keys.
    pub(super) fn element(self) -> Self {
        match self {
            List(elements) => *elements,
            Map(_) | Members(_) | Self::Requested(_) => Text,
            _ => Unknown,
        }
    }
}

/// Returns the type of a requested resource, or of the resources of a controller.
fn requested(group: &str, name: &str) -> Type {
    let full = if group.is_empty() { name.to_owned() } else { format!("{group}.{name}") };
    if full == "oom_score_adj" {
        return Number;
    }
    for field in RESOURCE_FIELDS {
        if field.name == full {
            return match &field.access {
                Access::Int64(_) | Access::UInt64(_) => Number,
                Access::Bool(_) => Bool,
                Access::Text(_) => Text,
                Access::Entries(_) | Access::OciOnly => Unknown,
            };
        }
        if let Some((controller, _)) = field.name.split_once('.')
            && controller == full
        {
            return Type::Requested(controller);
        }
    }
    Unknown
}

/// Types of the variables of macros, which hide those of the container.
#[derive(Clone)]
pub(super) struct Scope<'a>(Vec<(&'a str, Type)>);

impl<'a> Scope<'a> {
    /// Returns the scope of an expression. `entry` is the type of [`ENTRY`].
    pub(super) fn new(entry: Type) -> Self {
        Self(vec![(ENTRY, entry)])
    }

    /// Whether a macro around an expression has this variable.
    pub(super) fn declares(&self, name: &str) -> bool {
        self.0.iter().any(|(own, _)| *own == name)
    }

    fn variable(&self, name: &str) -> Type {
        let own = self.0.iter().rev().find(|(own, _)| *own == name);
        let of_container = || VARIABLES.iter().find(|(own, _)| *own == name);
        own.or_else(of_container).map_or(Unknown, |(_, kind)| *kind)
    }

    /// Returns the scope of a macro's body.
    pub(super) fn of_macro(&self, call: &'a ComprehensionExpr) -> Self {
        let element = self.of(&call.iter_range).element();
        let mut inner = self.clone();
        inner.0.push((&call.accu_var, self.of(&call.accu_init)));
        match call.iter_var2.as_deref() {
            None => inner.0.push((&call.iter_var, element)),
            Some(second) => inner.0.extend([(call.iter_var.as_str(), Unknown), (second, Unknown)]),
        }
        inner
    }

    /// Returns the type of an expression.
    pub(super) fn of(&self, tree: &IdedExpr) -> Type {
        match &tree.expr {
            Expr::Literal(literal) => match literal {
                LiteralValue::String(_) => Text,
                LiteralValue::Int(_) | LiteralValue::UInt(_) | LiteralValue::Double(_) => Number,
                LiteralValue::Boolean(_) => Bool,
                LiteralValue::Bytes(_) | LiteralValue::Null => Unknown,
            },
            Expr::Ident(name) => match name.strip_prefix('.') {
                Some(_) => Unknown,
                None => self.variable(name),
            },
            Expr::Select(select) if select.test => Bool,
            Expr::Select(select) => self.of(&select.operand).member(&select.field),
            Expr::Call(call) => self.of_call(call),
            Expr::List(list) => {
                let mut kinds = list.elements.iter().map(|element| self.of(element));
                let first = kinds.next().unwrap_or(Unknown);
                match first {
                    Text if kinds.all(|kind| kind == Text) => TEXTS,
                    Number if kinds.all(|kind| kind == Number) => List(&Number),
                    _ => List(&Unknown),
                }
            }
            Expr::Map(_) => Map(&Unknown),
            Expr::Comprehension(call) => self.of_macro(call).of(&call.result),
            Expr::Struct(_) | Expr::Unspecified => Unknown,
        }
    }

    fn of_call(&self, call: &CallExpr) -> Type {
        match (call.func_name.as_str(), call.target.as_deref(), call.args.as_slice()) {
            (operators::INDEX, None, [map, key]) => self.of_index(map, key),
            (operators::CONDITIONAL, None, [_, then, otherwise]) => {
                let (then, otherwise) = (self.of(then), self.of(otherwise));
                if then == otherwise { then } else { Unknown }
            }
            (operators::ADD, None, [left, right]) => {
                let (left, right) = (self.of(left), self.of(right));
                if left == right && matches!(left, Text | Number) { left } else { Unknown }
            }
            ("orValue", Some(optional), [default]) => {
                let Expr::Call(call) = &optional.expr else { return Unknown };
                let kind = match (call.func_name.as_str(), call.args.as_slice()) {
                    (operators::OPT_INDEX | operators::OPT_SELECT, [map, key]) => {
                        self.of_index(map, key)
                    }
                    _ => Unknown,
                };
                if kind == self.of(default) { kind } else { Unknown }
            }
            (name, ..) if COMPARISONS.contains(&name) || CONDITIONS.contains(&name) => Bool,
            ("string" | "lowerAscii" | "upperAscii" | "replace" | "substring" | "trim", ..) => Text,
            ("charAt" | "join" | "format", ..) => Text,
            ("size" | "int" | "uint" | "double" | "indexOf" | "lastIndexOf", ..) => Number,
            ("split", ..) => TEXTS,
            _ => Unknown,
        }
    }

    fn of_index(&self, map: &IdedExpr, key: &IdedExpr) -> Type {
        match (self.of(map), &key.expr) {
            (List(elements), _) => *elements,
            (Map(values), _) => *values,
            (map, Expr::Literal(LiteralValue::String(name))) => map.member(name.inner()),
            _ => Unknown,
        }
    }
}

/// Operators that compare.
pub(super) const COMPARISONS: [&str; 7] = [
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::LESS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::GREATER_EQUALS,
    operators::IN,
];

/// Other operators and functions whose value is true or false.
pub(super) const CONDITIONS: [&str; 8] = [
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    "startsWith",
    "endsWith",
    "contains",
    "matches",
    "hasValue",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        expression::{Expression, type_name},
        facts,
        load::load,
    };
    use nri_api::{
        opt,
        proto::{
            Container, Hook, Hooks, LinuxContainer, LinuxDevice, LinuxResources, Mount, PodSandbox,
            User,
        },
    };
    use std::time::{Duration, Instant};

    fn container() -> Container {
        let mut resources = LinuxResources::new();
        resources.memory.mut_or_insert_default().limit = opt(Some(1 << 30));
        resources.memory.mut_or_insert_default().use_hierarchy = opt(Some(true));
        let cpu = resources.cpu.mut_or_insert_default();
        (cpu.shares, cpu.cpus) = (opt(Some(5)), "0".to_owned());
        let linux = LinuxContainer {
            devices: vec![LinuxDevice::default()],
            resources: Some(resources).into(),
            ..Default::default()
        };
        let source = r#"[{"destination": "", "source": "", "real": "", "writable": true,
             "propagation": "", "kind": "", "type": ""}]"#;
        let fact = |name: &str| {
            let value = match name {
                "device_access" => "c 1:3 rwm",
                "mount_sources" => source,
                _ => "true",
            };
            (format!("{}{name}", facts::PREFIX), value.to_owned())
        };
        Container {
            args: vec!["sh".to_owned()],
            env: vec!["A=b".to_owned()],
            labels: [("team".to_owned(), "shop".to_owned())].into(),
            annotations: facts::OPTIONAL.map(fact).into(),
            mounts: vec![Mount::default()],
            hooks: Some(Hooks {
                prestart: vec![Hook { path: "/proc/7/exe".to_owned(), ..Default::default() }],
                ..Default::default()
            })
            .into(),
            user: Some(User { additional_gids: vec![7], ..Default::default() }).into(),
            linux: Some(linux).into(),
            ..Default::default()
        }
    }

    /// The types here are those of the values that expressions have for a container.
    #[test]
    fn the_types_are_those_of_the_values_of_a_container() {
        let (pod, container) = (PodSandbox::default(), container());
        let members = |(variable, kind): (&str, Type)| match kind {
            Members(all) => all.iter().map(|(name, _)| format!("{variable}.{name}")).collect(),
            List(Members(all)) => {
                all.iter().map(|(name, _)| format!("{variable}[0].{name}")).collect()
            }
            List(_) => vec![format!("{variable}[0]")],
            Map(_) => vec![format!("{variable}.map(k, {variable}[k])[0]")],
            _ => Vec::new(),
        };
        let variables = VARIABLES.map(|(name, _)| name.to_owned());
        let resources = ["memory.limit", "cpu.shares", "memory.useHierarchy", "cpu.cpus"];
        let resources = resources.map(|name| format!("requested.{name}"));
        let all = VARIABLES.into_iter().flat_map(members).chain(variables).chain(resources);
        for source in all {
            let text = format!("rules: [{{name: a, refuse: '${{{source}}}'}}]");
            let rules = load(&text).unwrap();
            let deadline = Instant::now() + Duration::from_secs(9);
            let context = facts::context(&pod, &container, &rules, deadline);
            let expression = Expression::parse(&source).unwrap();
            let value = expression.evaluate(&context).unwrap_or_else(|e| panic!("{source}: {e}"));
            let kind = Scope(Vec::new()).of(expression.tree());
            let expected = match type_name(&value) {
                "an int" => "a number",
                "a string" => "a text",
                "a bool" => "true or false",
                other => other,
            };
            if kind != Unknown || !source.contains(".map(") {
                assert_eq!(kind.name(), Some(expected), "{source}");
            }
        }
    }
}
