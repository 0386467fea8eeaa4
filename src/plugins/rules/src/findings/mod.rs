//! What is wrong with a file that loads: expressions that fail for containers that the rules are
//! not meant for. A container is refused then, since the rule might be one that refuses it.
//!
//! `nri-rules check` fails because of them, and the plugin logs them when it loads a file: it does
//! not refuse a file that it took before.

mod comparison;
mod cure;
mod given;
mod lookups;
mod members;
mod mismatch;
mod part;
mod path;
mod presence;
mod types;
mod wrong;

pub(crate) use given::{Absent, Given};

use crate::{
    facts::OPTIONAL,
    field::{FieldValue, MEMORY, RESERVATION, SWAP},
    hint::one_line,
    mistake::{LoadError, Mistake, at},
    rule::{Action, Amount, Rule, RuleSet},
    stack::with_stack,
};
use cure::Unguarded;
use lookups::{Lookup, lookups};
use mismatch::mismatches;
use part::{MATCH, Part, condition, declared, parts};
use path::Declared;
use presence::Present;
use std::io;
use wrong::Mismatch;

/// Returns what would refuse containers, in the order of the file.
///
/// # Errors
/// See [`with_stack`].
pub(crate) fn findings(rules: &RuleSet, given: &Given) -> io::Result<Vec<LoadError>> {
    with_stack(|| {
        let mut found = facts(rules, given);
        found.extend(all_lookups(rules));
        found.extend(tiny_amounts(rules));
        found.sort_by_key(|finding| finding.place);
        found
    })
}

fn facts(rules: &RuleSet, given: &Given) -> Vec<LoadError> {
    let mut found = Vec::new();
    let used: Vec<_> = OPTIONAL.into_iter().filter(|f| rules.variables.contains(*f)).collect();
    for rule in &rules.rules {
        for fact in OPTIONAL {
            let names = |part: &Part<'_>| part.expression.variables().contains(fact);
            let part = condition(rule).into_iter().chain(parts(rule)).find(names);
            if let (Some(part), Some(missing)) = (part, given.missing(fact, &used)) {
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
    let declared = declared(part);
    let mistake = |lookup| {
        let (rule_name, name) = (rule.name.clone(), part.name.clone());
        match lookup {
            Lookup::Unknown { name: unknown, all } => {
                Mistake::UnknownName { rule: rule_name, part: name, name: unknown, all }
            }
            Lookup::Unguarded { entry, guard, or_empty } => {
                let unguarded =
                    Unguarded { entry: &entry, guard: &guard, or_empty: or_empty.as_deref() };
                let hint = if is_in_rule && part.entry.is_none() {
                    cure::of_value(rule, part, &unguarded, present, &declared)
                } else {
                    cure::of_condition(part, &unguarded, present, &declared)
                };
                Mistake::Unguarded { rule: rule_name, part: name, entry, hint }
            }
        }
    };
    let lookups = lookups(part.expression.tree(), present, &declared).into_iter();
    let lookups = lookups.map(|lookup| at(part.place, mistake(lookup)));
    lookups.chain(of_types(rule, part, present)).collect()
}

/// Returns what is wrong with a part of a rule that has failed because a container has no entry of
/// this key: the entry, and what to write.
pub(crate) fn missing(rule: &Rule, part: &str, key: &str) -> Option<(String, String)> {
    let none = Present::default();
    let all = condition(rule).into_iter().chain(parts(rule)).filter(|own| own.name == part);
    let found = all.flat_map(|own| of_part(rule, &own, &none, own.name != MATCH));
    let mut entries = found.filter_map(|finding| match finding.error {
        Mistake::Unguarded { entry, hint, .. } => Some((entry, hint)),
        _ => None,
    });
    entries.find(|(entry, _)| {
        entry.ends_with(&format!("[{key:?}]")) || entry.ends_with(&format!(".{key}"))
    })
}

/// Returns operators and functions with values of types that they are not for. The lines that they
/// have also guard the look-ups of the condition.
fn of_types(rule: &Rule, part: &Part<'_>, present: &Present) -> Vec<LoadError> {
    let (source, cured) = (one_line(part.expression.source()), cure::of_types(part));
    let mistake = |found: Mismatch| {
        let hint = found.cure.map(|cure| {
            let is_whole = part.name == MATCH && cured.len() <= cure::MAX_LINE;
            let is_in_line = is_whole && cured != source && cured.contains(&cure);
            let lines = is_in_line.then(|| cure::lines(part, present, &declared(part)));
            let lines = lines.filter(|lines| !lines.is_empty());
            format!(": write {}", lines.map_or(cure, |lines| lines.join(", or ")))
        });
        let (rule, part) = (rule.name.clone(), part.name.clone());
        Mistake::Types { rule, part, what: found.what, hint: hint.unwrap_or_default() }
    };
    let found = mismatches(part.expression.tree(), part.entry_type()).into_iter();
    found.map(|found| at(part.place, mistake(found))).collect()
}

/// Amounts of memory in bytes below which no process starts.
const LEAST_MEMORY: i64 = 1 << 20;

/// Returns amounts of memory that are so small that a unit is missing.
fn tiny_amounts(rules: &RuleSet) -> Vec<LoadError> {
    let mut found = Vec::new();
    for rule in &rules.rules {
        for step in &rule.steps {
            let (Action::Default(key, amount)
            | Action::Set(key, amount)
            | Action::AtMost(key, amount)) = &step.action
            else {
                continue;
            };
            if let Amount::Constant(FieldValue::Number(bytes)) = amount
                && [MEMORY, RESERVATION, SWAP].contains(key)
                && (1..LEAST_MEMORY).contains(bytes)
            {
                let (rule, field) = (rule.name.clone(), key.to_string());
                found.push(at(step.place, Mistake::Tiny { rule, field, bytes: *bytes }));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{hint::line, load::load};
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
                "rules:\n  - name: a\n    match: labels.team == \"x\"\n    refuse: x\n  \
                 - name: b\n    set: { env: { T: '${pod.labels[image]}' } }\n  \
                 - name: c\n    at_most: { memory.limit: '${requested.memory.swap}' }\n  \
                 - name: d\n    match: privileged && engine == \"docker\"\n    refuse: x\n  \
                 - name: e\n    strip: { env: it.nam == \"A\" }\n"
            ),
            [
                "line 3, column 12: rule \"a\": match reads labels[\"team\"], and fails for a \
                 container without it, which is then refused: write match: '\"team\" in labels && \
                 labels.team == \"x\"', or match: 'labels[?\"team\"].orValue(\"\") == \"x\"'",
                "line 6, column 22: rule \"b\": env[T] reads pod.labels[image], and fails for a \
                 container without it, which is then refused: write match: 'image in pod.labels', \
                 or pod.labels[?image].orValue(\"\") in the value",
                "line 8, column 30: rule \"c\": memory.limit reads requested.memory.swap, and \
                 fails for a container without it, which is then refused: write match: \
                 'has(requested.memory) && has(requested.memory.swap)'",
                "line 10, column 12: rule \"d\" uses engine, which containerd does not give, but \
                 only nri-container-runtime: the rule refuses containers",
                "line 10, column 12: rule \"d\" uses privileged, which containerd does not give, \
                 but only nri-container-runtime: the rule refuses containers",
                "line 13, column 19: rule \"e\": strip.env reads it.nam, which no container has: \
                 there are name, value",
            ]
        );
    }

    /// Each line of a hint is one that can be typed, and has no finding.
    #[test]
    fn the_lines_that_a_finding_has_are_its_cure() {
        for (condition, lines) in [
            ("labels['a'] == 'x' || image == ''", 2),
            ("image == '' || labels.a == 'x'", 1),
            ("image == '' ? labels[\"a\"] == 'x' : true", 2),
            ("!(env.A == \"don't\")", 1),
            ("labels['a'] != 'x' && image == ''", 1),
            ("labels.a == 'x' || labels.b == 'y'", 1),
            ("pod.labels.a == labels.b", 2),
            ("has(requested.memory.limit) && requested.memory.limit > 5", 1),
        ] {
            let text = |line: &str| format!("rules:\n  - name: a\n    refuse: x\n    {line}\n");
            let finding = &found(&text(&line("match", condition)))[0];
            let (_, hint) = finding.split_once(": write ").unwrap();
            let all: Vec<&str> = hint.split(", or ").collect();
            assert_eq!(all.len(), lines, "{finding}");
            for line in all {
                assert_eq!(found(&text(line)), [""; 0], "{line}");
            }
        }
        let in_macro = "command.exists(k, labels[k] == 'a')";
        let finding = found(&format!("rules: [{{name: a, match: {in_macro:?}, refuse: x}}]"));
        assert!(
            finding[0]
                .ends_with(": write match: 'command.exists(k, labels[?k].orValue(\"\") == ''a'')'"),
            "{finding:?}"
        );
        let refusal = "rules: [{name: a, match: privileged, refuse: '${labels.a}'}]";
        let finding = found(refusal);
        assert!(finding[1].ends_with("write labels[?\"a\"].orValue(\"\") in its place"));
    }

    #[test]
    fn values_of_different_types_are_found_with_what_to_write() {
        for (condition, expected) in [
            (
                "user.uid == \"0\"",
                "compares user.uid, a number, with \"0\", a text, which is never true: write \
                 match: 'user.uid == 0'",
            ),
            ("labels[?'level'].orValue('') == 3", "orValue(\"\") == \"3\""),
            (
                "'x' in labels && labels['x'] != 1",
                "which is always true: write match: '''x'' in labels && labels[\"x\"] != \"1\"'",
            ),
            ("'D' in env && env.D == true", "write match: '''D'' in env && env.D == \"true\"'"),
            ("command == \"sleep\"", "write match: '\"sleep\" in command'"),
            (
                "requested.?memory.?limit.orValue(0) > 5 && \"1\" == user.gid",
                "write match: 'requested.?memory.?limit.orValue(0) > 5 && 1 == user.gid'",
            ),
            (
                "has(requested.memory) && has(requested.memory.limit) && requested.memory.limit > \
                 \"1Gi\"",
                "which fails: write match: 'has(requested.memory) && has(requested.memory.limit) \
                 && requested.memory.limit > 1073741824'",
            ),
            ("privileged == \"true\"", "true or false, with \"true\", a text, which is never"),
            ("0 in labels", "which has texts, which is never true: write match: '\"0\" in labels'"),
            ("\"a\" in image", "write match: 'image.contains(\"a\")'"),
            ("user.uid in ['0', '1']", "in an expression, which has texts, which is never true"),
            (
                "mounts.exists(m, m.options == \"ro\")",
                "write match: 'mounts.exists(m, \"ro\" in m.options)'",
            ),
            (
                "devices.exists(d, d.major == \"10\")",
                "write match: 'devices.exists(d, d.major == 10)'",
            ),
            ("command.exists(c, c == 5)", "write match: 'command.exists(c, c == \"5\")'"),
            ("size(command) == '1'", "write match: 'size(command) == 1'"),
            ("command.startsWith('sh')", "write match: 'command.exists(x, x.startsWith(\"sh\"))'"),
            (
                "command.contains('sh')",
                "calls contains, which is for texts, of command, a list: write match: '\"sh\" in \
                 command'",
            ),
            ("!command.contains('sh')", "write match: '!(\"sh\" in command)'"),
            ("labels.contains('a')", "of labels, a map: write match: '\"a\" in labels'"),
            ("mounts.exists(m, m.options.contains('ro'))", "(m, \"ro\" in m.options)'"),
            ("mounts.contains('/etc')", "calls contains, which is for texts, of mounts, a list"),
            ("user.gid.contains('1')", "write match: 'string(user.gid).contains(\"1\")'"),
            ("user.uid.startsWith('1')", "write match: 'string(user.uid).startsWith(\"1\")'"),
            ("mounts == 'x'", "compares mounts, a list, with \"x\", a text, which is never true"),
        ] {
            let text =
                format!("rules:\n  - name: a\n    refuse: x\n    {}\n", line("match", condition));
            let all = found(&text);
            assert!(all.iter().any(|text| text.contains(expected)), "{condition}\n{all:#?}");
        }
        let strip = found("rules: [{name: a, strip: {env: it.value == 1}}]");
        assert!(strip[0].ends_with("write it.value == \"1\""), "{strip:?}");
    }

    /// Returns the findings in a condition.
    fn found_in(condition: &str) -> Vec<String> {
        found(&format!("rules:\n  - name: a\n    refuse: x\n    {}\n", line("match", condition)))
    }

    #[test]
    fn an_order_is_one_of_numbers() {
        let guard = "'x' in labels && ";
        for (condition, expected) in [
            (
                "labels.x > 3",
                "a number, which fails: write match: \"'x' in labels && int(labels.x) > 3\"",
            ),
            (
                "labels.x >= '3'",
                "compares labels.x with \"3\" as texts, in whose order \"10\" is before \"9\": \
                 write match: \"'x' in labels && int(labels.x) >= 3\"",
            ),
            ("-3 < labels.x", ": write match: \"'x' in labels && -3 < int(labels.x)\""),
            ("labels.x <= '2.5'", ": write match: \"'x' in labels && double(labels.x) <= 2.5\""),
            ("labels.x < user.uid", ": write match: \"'x' in labels && int(labels.x) < user.uid\""),
            ("labels[?'x'].orValue('') > '3'", "&& int(labels[?\"x\"].orValue(\"0\")) > 3'"),
            (
                "int(labels[?'x'].orValue('')) > 3",
                "converts \"\", which is no number, where labels[?\"x\"] is missing, which fails: \
                 write match: '''x'' in labels && int(labels[?\"x\"].orValue(\"0\")) > 3'",
            ),
        ] {
            let found = found_in(&format!("{guard}{condition}"));
            assert!(found.len() == 1 && found[0].contains(expected), "{condition}\n{found:#?}");
        }
    }

    #[test]
    fn a_member_of_what_has_no_members_is_found_with_what_to_write() {
        for (condition, expected) in [
            (
                "mounts.source == '/etc'",
                "match reads mounts.source, but mounts is a list: write match: 'mounts.exists(m, \
                 m.source == \"/etc\")'",
            ),
            ("mounts.source != '/etc'", "write match: 'mounts.all(m, m.source != \"/etc\")'"),
            ("'ro' in mounts.options", "write match: 'mounts.exists(m, \"ro\" in m.options)'"),
            (
                "mounts.source.startsWith('/etc')",
                "write match: 'mounts.exists(m, m.source.startsWith(\"/etc\"))'",
            ),
            ("devices['major'] == 10", "write match: 'devices.exists(d, d.major == 10)'"),
            ("mounts['/etc'].type == 'bind'", "write mounts.exists(m, m.source == …)"),
            ("mounts.?source.orValue('') == ''", "write mounts.exists(m, m.source == …)"),
            ("has(mounts.source)", "write mounts.exists(m, m.source == …)"),
            ("command.name == 'sh'", "command is a list: write command.exists(x, x == …)"),
            ("user.groups['0'] == 0", "user.groups is a list: write user.groups.exists(x, x == …)"),
            ("capabilities.name == 'sh'", "capabilities.exists(x, x == …)"),
            (
                "mounts.exists(m, m.options.ro == 'x')",
                "reads m.options.ro, but m.options is a list: write m.options.exists(x, x == …)",
            ),
            ("image.name == 'a'", "reads image.name, but image is a text, which has no members"),
            (
                "labels.com.example.team == \"a\"",
                "reads labels.com.example.team, but labels.com is a text, which has no members: \
                 write match: '\"com.example.team\" in labels && labels[\"com.example.team\"] == \
                 \"a\"', or match: ",
            ),
            ("has(pod.labels.a.b)", "members: write match: '\"a.b\" in pod.labels'"),
            ("user.uid.id == 0", "user.uid is a number, which has no members"),
            ("image['a'] == 'a'", "reads image[\"a\"], but image is a text, which has no members"),
            ("privileged.yes == 'a'", "privileged is true or false, which has no members"),
        ] {
            let found = found_in(condition);
            assert!(found.iter().any(|text| text.contains(expected)), "{condition}\n{found:#?}");
            let reads = found.iter().filter(|text| text.contains(": match reads"));
            let reads = reads.filter(|text| text.contains(", but ")).count();
            assert_eq!(reads, 1, "{condition}\n{found:#?}");
        }
    }

    /// Two mistakes of one condition: each of their lines mends both.
    #[test]
    fn the_line_of_a_finding_mends_the_other_ones_of_its_condition() {
        for condition in ["requested.memory.limit > '1Gi'", "labels.x > 3", "labels.x > '3'"] {
            let all = found_in(condition);
            assert!(all.len() >= 2, "{all:#?}");
            for finding in all {
                let (_, line) = finding.split_once(": write ").unwrap();
                let line = line.split(", or ").next().unwrap();
                let text = format!("rules:\n  - name: a\n    refuse: x\n    {line}\n");
                assert_eq!(found(&text), [""; 0], "{finding}");
            }
        }
    }

    #[test]
    fn values_of_one_type_or_of_an_unknown_one_are_no_finding() {
        for condition in [
            "user.uid == 0 && user.gid == 1.5 && 0 in user.groups",
            "labels == {} && command == [] && command == ['a'] && mounts.map(m, m) == []",
            "image in ['a'] && image in {'a': 1} && image in labels && [1, 'a'] == command",
            "image in [1, 'a'] && dyn(image) == 1",
            "labels[?'a'].orValue(0) == 3 || labels[?'a'] == image",
            "command.map(c, size(c)).exists(n, n == 3) && command.filter(c, c == 'a')[0] == 'b'",
            "command.exists_one(c, c == 'a') == true && 'a'.split(',') == command",
            "labels.all(k, k == 'a') && {'a': 1}['a'] == 1 && [{'a': 1}].all(image, image == 2)",
            "mounts.all(m, 'ro' in m.options && m.source.startsWith('/')) && null == image",
            "image > 'b' && '3' < '4' && image < image && devices[0].major == 1",
            "mounts.map(m, m.source)[0] == '/' && dyn(image).name == '' && [{'a': 1}][0].a == 1",
            "int(labels[?'a'].orValue('0')) > 3 && double(labels[?'a'].orValue('.5')) > 3.5",
            "(privileged ? 1 : 'a') == 'a' && (image + 'a') == 'b' && 1 + 2 == 3",
        ] {
            let rules = load(&format!("rules: [{{name: a, match: {condition:?}, refuse: x}}]"));
            let found = findings(&rules.unwrap(), &Given::Unknown).unwrap();
            assert!(found.is_empty(), "{condition}\n{found:?}");
        }
    }

    #[test]
    fn an_amount_of_memory_below_a_mebibyte_is_found() {
        let text = "rules: [{name: a, set: {memory.limit: 512, memory.swap: 1Mi, pids.limit: 5}}]";
        let expected = "line 1, column 39: rule \"a\": memory.limit of 512 is 512 bytes, with \
             which no process starts: write an amount with its unit, such as 512Mi";
        assert_eq!(found(text), [expected]);
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
                    "{{name: a, match: '!(\"team\" in labels)', refuse: x}}, {{name: b, {value}}}"
                ),
                0,
            ),
            // They are not, since it only observes, or only changes them.
            (
                format!(
                    "{{name: a, match: '!has(labels.team)', observe: true, refuse: x}}, \
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
