//! What is wrong with a file that loads: expressions that fail for containers that the rules are
//! not meant for. A container is refused then, since the rule might be one that refuses it.
//!
//! `nri-rules check` fails because of them, and the plugin logs them when it loads a file: it does
//! not refuse a file that it took before.

mod given;
mod lookups;
mod path;
mod presence;

pub(crate) use given::Given;

use crate::{
    expression::{ENTRY, Expression},
    facts::OPTIONAL,
    field::Group,
    mistake::{LoadError, Mistake, at},
    rule::{Action, Place, Rule, RuleSet},
    stack::with_stack,
    template::Template,
};
use lookups::{DEVICE, Lookup, MOUNT, NAMED, lookups};
use path::{Declared, Variable};
use presence::Present;
use std::io;

/// Returns what would refuse containers, in the order of the file.
///
/// # Errors
/// See [`with_stack`].
pub(crate) fn findings(rules: &RuleSet, given: &Given) -> io::Result<Vec<LoadError>> {
    with_stack(|| {
        let mut found = facts(rules, given);
        found.extend(all_lookups(rules));
        found.sort_by_key(|finding| finding.place);
        found
    })
}

/// An expression of a rule.
struct Part<'a> {
    place: Place,
    /// The member of the rule, or the field that it is the value of, as errors name it.
    name: String,
    expression: &'a Expression,
    /// The members of [`ENTRY`].
    entry: Option<&'static [&'static str]>,
}

fn facts(rules: &RuleSet, given: &Given) -> Vec<LoadError> {
    let mut found = Vec::new();
    for rule in &rules.rules {
        for fact in OPTIONAL {
            let names = |part: &Part<'_>| part.expression.variables().contains(fact);
            let part = condition(rule).into_iter().chain(parts(rule)).find(names);
            if let (Some(part), Some(missing)) = (part, given.missing(fact)) {
                let rule = rule.name.clone();
                found.push(at(part.place, Mistake::Fact { rule, fact, missing }));
            }
        }
    }
    found
}

fn all_lookups(rules: &RuleSet) -> Vec<LoadError> {
    let mut found = Vec::new();
    let none = Declared::default();
    // Entries that all containers have which the rules up to here do not refuse.
    let mut present = Present::default();
    for rule in &rules.rules {
        let condition = condition(rule);
        let is_if = |value| match &condition {
            Some(part) => Present::if_is(part.expression.tree(), value, &none),
            None => value.then(Present::default),
        };
        if let Some(part) = &condition {
            found.extend(of_part(rule, part, &present, false));
        }
        if let Some(matching) = is_if(true) {
            let present = present.and(&matching);
            found.extend(parts(rule).iter().flat_map(|part| of_part(rule, part, &present, true)));
        }
        if rule.refuse.is_some() && !rule.observe {
            match is_if(false) {
                Some(others) => present = present.and(&others),
                None => break,
            }
        }
    }
    found
}

/// Returns the findings in an expression, which is a value or chooses entries if `is_in_rule`, and
/// else the condition of the rule.
fn of_part(rule: &Rule, part: &Part<'_>, present: &Present, is_in_rule: bool) -> Vec<LoadError> {
    let mut declared = Declared::default();
    if let Some(members) = part.entry {
        declared = declared.with(Variable { name: ENTRY, members: Some(members) });
    }
    let mistake = |lookup| {
        let (rule, part) = (rule.name.clone(), part.name.clone());
        match lookup {
            Lookup::Unknown { name, all } => Mistake::UnknownName { rule, part, name, all },
            Lookup::Unguarded { entry, guard, or_empty } => {
                let guarded = match is_in_rule {
                    true => format!("add {guard} && to the rule's match"),
                    false => format!("write {guard} && {entry}"),
                };
                let or_empty = or_empty.map(|text| format!(", or {text}")).unwrap_or_default();
                Mistake::Unguarded { rule, part, entry, hint: guarded + &or_empty }
            }
        }
    };
    let lookups = lookups(part.expression.tree(), present, &declared).into_iter();
    lookups.map(|lookup| at(part.place, mistake(lookup))).collect()
}

fn condition(rule: &Rule) -> Option<Part<'_>> {
    let expression = rule.condition.as_ref()?;
    let (place, name) = (rule.condition_place, "match".to_owned());
    Some(Part { place, name, expression, entry: None })
}

/// Returns the expressions of a rule other than its condition.
fn parts(rule: &Rule) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    for step in &rule.steps {
        let (name, entry) = match &step.action {
            Action::Strip(group, _) => {
                let members = match group {
                    Group::Mounts => MOUNT,
                    Group::Devices => DEVICE,
                    _ => NAMED,
                };
                (format!("strip.{}", group.name()), Some(members))
            }
            Action::Default(key, _)
            | Action::Set(key, _)
            | Action::AtLeast(key, _)
            | Action::AtMost(key, _)
            | Action::Remove(key) => (key.to_string(), None),
            Action::Mount(_) => ("add.mounts".to_owned(), None),
            Action::Device(_) => ("add.devices".to_owned(), None),
            Action::Cdi(_) => ("add.cdi".to_owned(), None),
            Action::Hook(..) => ("add.hooks".to_owned(), None),
        };
        for expression in step.action.expressions() {
            parts.push(Part { place: step.place, name: name.clone(), expression, entry });
        }
    }
    for expression in rule.refuse.iter().flat_map(Template::expressions) {
        let (place, name) = (rule.refuse_place, "refuse".to_owned());
        parts.push(Part { place, name, expression, entry: None });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::load;
    use std::{fs, path::Path};

    /// Returns the findings in rules, where a configuration gives no fact.
    fn found(rules: &str) -> Vec<String> {
        let rules = load(rules).unwrap_or_else(|error| panic!("{error}"));
        let found = findings(&rules, &Given::Elsewhere("containerd".to_owned())).unwrap();
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_finding_has_the_place_the_rule_and_what_to_write() {
        assert_eq!(
            found(
                "rules:\n  - name: a\n    match: labels.team == \"x\"\n    refuse: no\n  \
                 - name: b\n    set: { env: { T: '${pod.labels[image]}' } }\n  \
                 - name: c\n    at_most: { memory.limit: '${requested.memory.swap}' }\n  \
                 - name: d\n    match: privileged && engine == \"docker\"\n    refuse: no\n  \
                 - name: e\n    strip: { env: it.nam == \"A\" }\n"
            ),
            [
                "line 3, column 12: rule \"a\": match reads labels[\"team\"], and fails for a \
                 container without it, which is then refused: write \"team\" in labels && \
                 labels[\"team\"], or labels[?\"team\"].orValue(\"\")",
                "line 6, column 22: rule \"b\": env[T] reads pod.labels[image], and fails for a \
                 container without it, which is then refused: add image in pod.labels && to the \
                 rule's match, or pod.labels[?image].orValue(\"\")",
                "line 8, column 30: rule \"c\": memory.limit reads requested.memory.swap, and \
                 fails for a container without it, which is then refused: add \
                 has(requested.memory) && has(requested.memory.swap) && to the rule's match",
                "line 10, column 12: rule \"d\" uses engine, which containerd does not give, but \
                 only nri-container-runtime: the rule refuses containers",
                "line 10, column 12: rule \"d\" uses privileged, which containerd does not give, \
                 but only nri-container-runtime: the rule refuses containers",
                "line 13, column 19: rule \"e\": strip.env reads it.nam, which no container has: \
                 there are name, value",
            ]
        );
    }

    #[test]
    fn the_files_of_the_cookbook_have_none() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("cookbook");
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let rules = load(&fs::read_to_string(&path).unwrap()).unwrap();
            let found = findings(&rules, &Given::Unknown).unwrap();
            assert!(found.is_empty(), "{}: {found:?}", path.display());
        }
    }

    #[test]
    fn the_condition_of_a_rule_and_earlier_refusals_guard_its_values() {
        let value = "set: {env: {T: '${labels.team}'}}";
        for (rules, number) in [
            (format!("{{name: a, match: '\"team\" in labels', {value}}}"), 0),
            ("{name: a, match: 'has(labels.team)', refuse: 'not ${labels.team}'}".to_owned(), 0),
            (format!("{{name: a, match: 'labels[?\"team\"].orValue(\"\") != \"\"', {value}}}"), 0),
            (format!("{{name: a, match: '\"team\" in env', {value}}}"), 1),
            // Containers without the label are refused by the first rule.
            (
                format!(
                    "{{name: a, match: '!(\"team\" in labels)', refuse: no}}, {{name: b, {value}}}"
                ),
                0,
            ),
            // They are not, since it only observes, or only changes them.
            (
                format!(
                    "{{name: a, match: '!has(labels.team)', observe: true, refuse: no}}, \
                     {{name: b, {value}}}"
                ),
                1,
            ),
            (
                format!(
                    "{{name: a, match: '!has(labels.team)', set: {{pids.limit: 5}}}}, \
                     {{name: b, {value}}}"
                ),
                1,
            ),
            (format!("{{name: a, refuse: never}}, {{name: b, {value}}}"), 0),
            ("{name: a, strip: {mounts: 'it.source == \"/\" && it.type == \"\"'}}".to_owned(), 0),
        ] {
            let found = found(&format!("rules: [{rules}]"));
            assert_eq!(found.len(), number, "{rules}\n{found:?}");
        }
    }
}
