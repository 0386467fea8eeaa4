//! Look-ups in an expression that fail for some containers: of an entry that a container may not
//! have, and of a name that no container has. An expression that fails refuses the container.
//!
//! Indices of lists are not looked at: whether one is there is a question of lengths.

use super::{
    path::{Declared, Path, Variable, path, path_of_entry},
    presence::Present,
};
use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use nri_api::{Access, RESOURCE_FIELDS};

/// Members of the elements of lists, and of the entries of maps that a condition chooses.
pub(crate) const MOUNT: &[&str] = &["destination", "options", "source", "type"];
pub(crate) const DEVICE: &[&str] = &["major", "minor", "path", "type"];
pub(crate) const ACCESS: &[&str] = &["access", "major", "minor", "type"];
pub(crate) const SOURCE: &[&str] =
    &["destination", "kind", "propagation", "real", "source", "type", "writable"];
pub(crate) const NAMED: &[&str] = &["name", "value"];

/// A look-up that fails for some containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// Of an entry that a container may not have.
    Unguarded {
        /// The entry.
        entry: String,
        /// The condition under which it is there.
        guard: String,
        /// An expression that has a value without the entry, too.
        or_empty: Option<String>,
    },
    /// Of a name that no container has.
    Unknown {
        /// The name.
        name: String,
        /// The names that there are.
        all: String,
    },
}

/// Returns the look-ups of an expression. `present` are entries that are there for certain where it
/// is evaluated.
pub(crate) fn lookups(tree: &IdedExpr, present: &Present, declared: &Declared<'_>) -> Vec<Lookup> {
    let mut search = Search { found: Vec::new() };
    search.visit(tree, present, declared);
    search.found
}

struct Search {
    found: Vec<Lookup>,
}

impl Search {
    fn visit(&mut self, tree: &IdedExpr, present: &Present, declared: &Declared<'_>) {
        match &tree.expr {
            Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
                // An error on one side does not count if the other one decides.
                (operators::LOGICAL_AND, [left, right]) => {
                    self.visit_if(left, (right, true), present, declared);
                    self.visit_if(right, (left, true), present, declared);
                }
                (operators::LOGICAL_OR, [left, right]) => {
                    self.visit_if(left, (right, false), present, declared);
                    self.visit_if(right, (left, false), present, declared);
                }
                (operators::CONDITIONAL, [condition, then, otherwise]) => {
                    self.visit(condition, present, declared);
                    self.visit_if(then, (condition, true), present, declared);
                    self.visit_if(otherwise, (condition, false), present, declared);
                }
                (operators::INDEX, [map, key]) => {
                    self.look_up(tree, map, present, declared);
                    self.visit(key, present, declared);
                    if let Expr::Literal(LiteralValue::String(name)) = &key.expr {
                        self.member(map, name.inner(), declared);
                    }
                }
                (operators::OPT_INDEX | operators::OPT_SELECT, [map, key]) => {
                    self.name(path_of_entry(map, key, declared));
                    self.visit(map, present, declared);
                    self.visit(key, present, declared);
                }
                (_, args) => {
                    let parts = call.target.as_deref().into_iter().chain(args);
                    parts.for_each(|part| self.visit(part, present, declared));
                }
            },
            Expr::Select(select) => {
                self.member(&select.operand, &select.field, declared);
                if select.test {
                    let entry = path(&select.operand, declared);
                    self.name(entry.map(|map| map.member(&select.field)));
                    self.visit(&select.operand, present, declared);
                } else {
                    self.look_up(tree, &select.operand, present, declared);
                }
            }
            Expr::Comprehension(call) => self.visit_macro(call, present, declared),
            Expr::List(list) => {
                list.elements.iter().for_each(|part| self.visit(part, present, declared));
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    self.visit_entry(&entry.expr, present, declared);
                }
            }
            Expr::Struct(value) => {
                for entry in &value.entries {
                    self.visit_entry(&entry.expr, present, declared);
                }
            }
            Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
        }
    }

    fn visit_entry(&mut self, entry: &EntryExpr, present: &Present, declared: &Declared<'_>) {
        match entry {
            EntryExpr::StructField(field) => self.visit(&field.value, present, declared),
            EntryExpr::MapEntry(entry) => {
                self.visit(&entry.key, present, declared);
                self.visit(&entry.value, present, declared);
            }
        }
    }

    /// Visits an expression whose value counts only if a condition has a value.
    fn visit_if(
        &mut self,
        tree: &IdedExpr,
        (condition, value): (&IdedExpr, bool),
        present: &Present,
        declared: &Declared<'_>,
    ) {
        if let Some(more) = Present::if_is(condition, value, declared) {
            self.visit(tree, &present.and(&more), declared);
        }
    }

    fn visit_macro<'a>(
        &mut self,
        call: &'a ComprehensionExpr,
        present: &Present,
        declared: &Declared<'a>,
    ) {
        self.visit(&call.iter_range, present, declared);
        self.visit(&call.accu_init, present, declared);
        let range = path(&call.iter_range, declared);
        let members = match range.as_ref().map(Path::names) {
            Some(("mounts", keys)) if keys.is_empty() => Some(MOUNT),
            Some(("devices", keys)) if keys.is_empty() => Some(DEVICE),
            Some(("device_access", keys)) if keys.is_empty() => Some(ACCESS),
            Some(("mount_sources", keys)) if keys.is_empty() => Some(SOURCE),
            _ => None,
        };
        let variable = call.iter_var.as_str();
        let mut inner = declared.with(Variable { name: variable, members });
        for name in [call.iter_var2.as_deref(), Some(call.accu_var.as_str())].into_iter().flatten()
        {
            inner = inner.with(Variable { name, members: None });
        }
        // The elements of a map are its keys.
        let keys: Present =
            range.filter(Path::is_open).map(|map| map.of_variable(variable)).into_iter().collect();
        let present = present.without(variable).and(&keys);
        for part in [&call.loop_cond, &call.loop_step, &call.result] {
            self.visit(part, &present, &inner);
        }
    }

    /// Checks a look-up in a map.
    fn look_up(
        &mut self,
        tree: &IdedExpr,
        map: &IdedExpr,
        present: &Present,
        declared: &Declared<'_>,
    ) {
        let Some(entry) = path(tree, declared) else {
            return self.visit(map, present, declared);
        };
        self.visit_keys(map, present, declared);
        self.name(Some(entry.clone()));
        let missing: Vec<Path> = entry.uncertain().filter(|entry| !present.has(entry)).collect();
        if let Some(last) = missing.last() {
            let guards: Vec<String> = missing.iter().map(Path::guard).collect();
            let or_empty = last.or_empty();
            let (entry, guard) = (last.to_string(), guards.join(" && "));
            self.add(Lookup::Unguarded { entry, guard, or_empty });
        }
    }

    /// Visits the keys on the way to a map.
    fn visit_keys(&mut self, map: &IdedExpr, present: &Present, declared: &Declared<'_>) {
        match &map.expr {
            Expr::Select(select) => self.visit_keys(&select.operand, present, declared),
            Expr::Call(call) => {
                if let [map, key] = call.args.as_slice() {
                    self.visit_keys(map, present, declared);
                    self.visit(key, present, declared);
                }
            }
            _ => {}
        }
    }

    /// Checks a member of a variable that always has the same ones.
    fn member(&mut self, operand: &IdedExpr, name: &str, declared: &Declared<'_>) {
        let Expr::Ident(variable) = &operand.expr else { return };
        let members = declared.get(variable).and_then(|variable| variable.members);
        if let Some(members) = members.filter(|members| !members.contains(&name)) {
            let (name, all) = (format!("{variable}.{name}"), members.join(", "));
            self.add(Lookup::Unknown { name, all });
        }
    }

    /// Checks the name of a requested resource.
    fn name(&mut self, entry: Option<Path>) {
        let Some(entry) = entry else { return };
        let ("requested", names) = entry.names() else { return };
        let name = names.join(".");
        let is_known = |known: &str| {
            known == name || known.strip_prefix(&name).is_some_and(|rest| rest.starts_with('.'))
        };
        let known = requested_names();
        if !name.is_empty() && !known.iter().any(|known| is_known(known)) {
            let name = format!("requested.{name}");
            self.add(Lookup::Unknown { name, all: known.join(", ") });
        }
    }

    fn add(&mut self, lookup: Lookup) {
        if !self.found.contains(&lookup) {
            self.found.push(lookup);
        }
    }
}

/// Returns the names below `requested`, as [`crate::facts`] gives them.
fn requested_names() -> Vec<&'static str> {
    let has_value = |access: &Access| !matches!(access, Access::Entries(_) | Access::OciOnly);
    let fields = RESOURCE_FIELDS.iter().filter(|field| has_value(&field.access));
    fields.map(|field| field.name).chain(["oom_score_adj"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::Expression;

    /// Returns the guards of the look-ups, and unknown names.
    fn found(source: &str) -> Vec<String> {
        let tree = Expression::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        let found = lookups(tree.tree(), &Present::default(), &Declared::default());
        let text = |lookup| match lookup {
            Lookup::Unguarded { guard, .. } => guard,
            Lookup::Unknown { name, .. } => name,
        };
        found.into_iter().map(text).collect()
    }

    #[test]
    fn look_ups_without_a_guard_are_found_with_it() {
        for (source, guards) in [
            ("labels['team'] == 'a'", &["\"team\" in labels"][..]),
            ("labels.team == env['TEAM']", &["\"team\" in labels", "\"TEAM\" in env"]),
            ("pod.labels.app == ''", &["\"app\" in pod.labels"]),
            ("pod['annotations']['app'] == ''", &["\"app\" in pod.annotations"]),
            ("labels[image] == ''", &["image in labels"]),
            ("labels['a' + image] == ''", &["(\"a\" + image) in labels"]),
            (
                "requested.memory.limit > 5",
                &["has(requested.memory) && has(requested.memory.limit)"],
            ),
            ("has(requested.memory.limit)", &["has(requested.memory)"]),
            (
                "has(requested.memory) && requested.memory.limit > 5",
                &["has(requested.memory.limit)"],
            ),
            // The guard is of another key, of another map, or on the wrong side of an operator.
            ("'b' in labels && labels['a'] == ''", &["\"a\" in labels"]),
            ("'a' in env && labels['a'] == ''", &["\"a\" in labels"]),
            ("'a' in labels || labels['a'] == ''", &["\"a\" in labels"]),
            ("!('a' in labels) && labels['a'] == ''", &["\"a\" in labels"]),
            ("('a' in labels || image == '') && labels['a'] == ''", &["\"a\" in labels"]),
            ("'a' in labels ? image == '' : labels['a'] == ''", &["\"a\" in labels"]),
            ("labels['a'] == 'x' && labels['a'] != 'y'", &["\"a\" in labels"]),
            ("labels[?'a'].orValue('') == '' && labels['a'] == ''", &["\"a\" in labels"]),
            ("labels[?'a'].orValue('') in ['', 'b'] && labels.a == ''", &["\"a\" in labels"]),
            ("env[?'A'].orValue('') != 'b' && env.A == ''", &["\"A\" in env"]),
            // In macros, and in their lists.
            ("mounts.exists(m, m.source == labels['a'])", &["\"a\" in labels"]),
            ("labels['a'].split(',').all(p, p != '')", &["\"a\" in labels"]),
            ("command.exists(k, labels[k] == '')", &["k in labels"]),
            ("env.exists(k, labels[k] == '')", &["k in labels"]),
            ("command.all(k, k in labels && env.exists(k, labels[k] == ''))", &["k in labels"]),
            // Names that no container has.
            ("has(requested.memory) && has(requested.memory.limt)", &["requested.memory.limt"]),
            ("requested[?'memroy'].hasValue()", &["requested.memroy"]),
            ("mounts.exists(m, m.src == '/')", &["m.src"]),
            ("devices.all(d, d['file'] == '/')", &["d.file"]),
        ] {
            assert_eq!(found(source), guards, "{source}");
        }
    }

    #[test]
    fn guarded_look_ups_are_none() {
        for source in [
            "'a' in labels && labels['a'] == 'b'",
            "'a' in labels && labels.a == 'b'",
            "has(labels.a) && labels['a'] == 'b'",
            "has(env.A) && (image == '' || env.A == 'b')",
            // An error on the left does not count if the right side is false.
            "labels['a'] == 'b' && 'a' in labels",
            "!('a' in labels) || labels['a'] == 'b'",
            "!('a' in labels && labels['a'] == 'b')",
            "!(!has(labels.a) || labels.a == 'b')",
            "('a' in labels && image == '' || 'a' in labels && image == 'b') && labels.a == ''",
            "'a' in labels ? labels['a'] == 'b' : image == ''",
            "(has(labels.a) ? labels.a : '') == 'b'",
            "('a' in labels ? true : false) && labels.a == 'b'",
            "labels[?'a'].orValue('') == 'b' && labels['a'] == 'b'",
            "'b' == labels[?'a'].orValue('') && labels['a'] == 'b'",
            "labels[?'a'].orValue('') != '' && labels['a'] == 'b'",
            "labels.?a.orValue('') in ['b', 'c'] && labels['a'] == 'b'",
            "!(env[?'A'].orValue('') in ['', 'none']) && env['A'] == 'b'",
            "labels[?'a'].hasValue() && labels.a == 'b'",
            "labels[?'a'].orValue(image) == 'b'",
            "has(requested.memory) && has(requested.memory.limit) && requested.memory.limit > 5",
            "requested.?memory.?limit.orValue(0) > 5",
            "has(requested.oom_score_adj) && requested.oom_score_adj < 0",
            "image in labels && labels[image] == ''",
            "labels.exists(k, labels[k] == 'b')",
            "labels.all(k, k.startsWith('a') || labels[k] == 'b')",
            "['a', 'b'].all(k, k in labels && labels[k] == 'c')",
            "'a' in labels && mounts.exists(m, m.source == labels['a'])",
            "mounts.exists(m, m.source == '/' && 'ro' in m.options && m.type == '')",
            "command.map(labels, {'team': labels}).exists(l, l.team == '')",
            "command.exists(labels, [{'a': labels}].all(x, x['a'] == ''))",
            "container.name == 'a' && pod.namespace == 'b' && user.uid == 0",
            "command[0] == 'sh' && mounts[0].source == '/'",
            "false && labels['a'] == ''",
        ] {
            assert_eq!(found(source), [""; 0], "{source}");
        }
    }
}
