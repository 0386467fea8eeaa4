//! From the text of a file to rules. Whatever is wrong with the file itself is found here, with its
//! line and column.

use crate::{
    compile::compile,
    conflicts,
    file::{RuleFile, options},
    hint,
    mistake::{LoadError, Mistake, at},
    rule::{Place, RuleSet},
    stack::with_stack,
};
use nri_values::{Words, reworded};
use std::io;

/// Size of a file in bytes.
pub(crate) const MAX_FILE: usize = 4 << 20;

/// Number of rules in a file. Each is compared with each other one.
const MAX_RULES: usize = 1000;

/// Reads a file.
///
/// # Errors
/// See [`LoadError`].
pub(crate) fn load(text: &str) -> Result<RuleSet, LoadError> {
    let thread = |error: io::Error| at(Place::default(), Mistake::Thread(error.to_string()));
    with_stack(|| read(text)).map_err(thread)?
}

fn read(text: &str) -> Result<RuleSet, LoadError> {
    if text.len() > MAX_FILE {
        let size = format!("the file has {} bytes: at most {MAX_FILE} are allowed", text.len());
        return Err(at(Place { line: 1, column: 1 }, Mistake::TooLarge(size)));
    }
    // Places in the file are those without a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(at(Place { line: 1, column: 1 }, Mistake::Empty));
    }
    let file: RuleFile = serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
        let error = error.without_snippet();
        let message = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
        let place = error.location().map_or(Place { line: 1, column: 1 }, |at| at.into());
        let message = form_message(&message, place);
        at(place, Mistake::Form(with_hint(message, text, place.line)))
    })?;
    let texts = file.rules.unwrap_or_default();
    if texts.len() > MAX_RULES {
        let number = format!("{} rules: at most {MAX_RULES} are allowed", texts.len());
        return Err(at(Place { line: 1, column: 1 }, Mistake::TooLarge(number)));
    }
    let rules = compile(&texts, text)?;
    conflicts::check(&rules.rules)?;
    Ok(rules)
}

/// Returns the message of the YAML parser as one line in words of YAML, without the place.
fn form_message(message: &str, Place { line, column }: Place) -> String {
    let message = message.trim_end();
    let place = format!(" at line {line}, column {column}");
    let message = message.strip_suffix(&place).unwrap_or(message).replace('\n', ", ");
    reworded(&message, Words::Yaml)
}

/// What a `match` without a value may be meant for.
const NO_CONDITION: &str = "match without an expression: leave it out for a rule of all \
     containers; one that begins with ! or \" is written in single quotes, and what follows # is \
     a comment";

/// How messages of the YAML parser begin where a text without quotes may have been meant.
const OF_YAML: [&str; 9] = [
    "invalid trailing content",
    "mapping values are not allowed",
    "while ",
    "simple key ",
    "unexpected character",
    "reference to unknown value",
    "unsupported tag",
    "expected string scalar",
    "cannot deserialize tagged",
];

/// Adds what to write in the line of a mistake, if that is known.
fn with_hint(message: String, content: &str, line: usize) -> String {
    let is_match = || {
        let line = content.lines().nth(line.saturating_sub(1)).unwrap_or_default();
        line.trim_start().trim_start_matches("- ").starts_with("match:")
    };
    let is_of_yaml = OF_YAML.iter().any(|start| message.starts_with(start));
    match hint::quoted(content, line).filter(|_| is_of_yaml) {
        Some(quoted) => format!("{message}: write {quoted}"),
        None if message.starts_with("null") && is_match() => NO_CONDITION.to_owned(),
        None if is_of_yaml && hint::is_in_braces(content, line) => {
            format!("{message}: write the expression or the text in single quotes")
        }
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        field::FieldValue,
        rule::{Action, Amount},
    };
    use std::{fs, path::Path};

    fn error(text: &str) -> String {
        load(text).unwrap_err().to_string()
    }

    #[test]
    fn mistakes_are_named_with_line_and_column() {
        for (text, expected) in [
            ("rules:\n  - nam: a\n", "line 2, column 5: unknown key `nam`, did you mean `name`?"),
            ("rules:\n  - name: a\n", "line 2, column 11: rule \"a\" does nothing"),
            (
                "rules:\n  - name: a\n    match: image ==\n    refuse: x\n",
                "line 3, column 12: rule \"a\": ",
            ),
            (
                "rules:\n  - name: a\n    match: container.name\n    refuse: x\n",
                "line 3, column 12: rule \"a\": no condition: container.name is a value",
            ),
            (
                "rules:\n  - name: a\n    match: labels.team\n    refuse: x\n",
                "line 3, column 12: rule \"a\": no condition: labels.team is a value",
            ),
            (
                "rules:\n  - name: a\n    match: imag == ''\n    refuse: x\n",
                "line 3, column 12: rule \"a\": unknown variable \"imag\"",
            ),
            (
                "rules:\n  - name: a\n    set:\n      memory.limit: 5 GB\n",
                "line 4, column 21: rule \"a\": memory.limit: \"5 GB\" is no amount: write 5Gi",
            ),
            (
                "rules:\n  - name: a\n    set: { cpu.shares: -1 }\n",
                "line 3, column 24: rule \"a\": cpu.shares: cannot be below zero",
            ),
            (
                "rules:\n  - name: a\n    remove: { hooks: [x] }\n",
                "line 3, column 15: unknown key `hooks`, known keys: ",
            ),
            (
                "rules:\n  - name: a\n    refuse: x\n  - name: a\n    refuse: z\n",
                "line 4, column 11: rule \"a\": the rule of line 2 has this name, too",
            ),
            (
                "rules:\n  - name: a\n    set: { pids.limit: 1 }\n  - name: b\n    \
                 match: privileged\n    set: { pids.limit: 2 }\n",
                "line 6, column 24: rule \"b\" sets pids.limit, and so does rule \"a\" of line 2",
            ),
            (
                "rules:\n  - name: a\n    at_most: { cpus: 1 }\n    at_least: { cpus: 2 }\n",
                "line 4, column 23: rule \"a\": at_least of cpu.quota is above at_most of rule",
            ),
            ("rules: 5", "line 1, column 8: must be a list, such as `- value`"),
            ("- name: a\n", "line 1, column 1: must be a mapping, such as `name: value`"),
            (
                "rules:\n  - name: a\n    set: { env: { A: yes } }\n",
                "line 3, column 22: expected a number or a text: write true, yes and null in",
            ),
            (
                "rules:\n  - name: a\n    refuse: false\n",
                "line 3, column 13: expected a number or a text: write true, yes and null in",
            ),
            (
                "rules:\n  - name: a\n    set: { rlimits: { nofile: [1] } }\n",
                "line 3, column 31: expected a number, or { soft: …, hard: … }",
            ),
            (
                "rules:\n  - name: a\n    match: \"team\" in labels\n    refuse: x\n",
                "line 3, column 19: invalid trailing content after double-quoted scalar: write \
                 match: '\"team\" in labels'",
            ),
            (
                "rules:\n  - {name: a, match: \"team\" in labels, refuse: x}\n",
                "line 2, column 29: invalid trailing content after double-quoted scalar: write the \
                 expression or the text in single quotes",
            ),
            (
                "rules:\n  - name: a\n    match: !privileged\n    refuse: x\n",
                "line 3, column 23: unsupported tag `!privileged`: write match: '!privileged'",
            ),
            (
                "rules:\n  - name: a\n    match: ! privileged\n    refuse: x\n",
                "line 3, column 14: `!` is a tag here: write match: '! privileged'",
            ),
            (
                "rules:\n  - name: a\n    match: &x == 1\n    refuse: x\n",
                "line 3, column 15: `&x` is an anchor here: write match: '&x == 1'",
            ),
            (
                "rules:\n  - name: a\n    refuse: this image: not ours\n",
                "line 3, column 23: mapping values are not allowed in this context: write refuse: \
                 'this image: not ours'",
            ),
            (
                "rules:\n  - name: a\n    match: # image == \"x\"\n    refuse: x\n",
                "line 3, column 10: match without an expression: leave it out for a rule of all",
            ),
        ] {
            let error = error(text);
            assert!(error.starts_with(expected), "{text}\n{error}\n{expected}");
            assert!(!error.contains("at line"), "the place is twice in {error}");
        }
        let other_key = error("rules: [{name: a, refuse: b}]\nrule: [a] == b\n");
        assert!(!other_key.contains("write"), "{other_key}");
    }

    #[test]
    fn files_that_would_take_too_much_are_refused() {
        let many: String = (0..1001).map(|n| format!("- {{name: r{n}, refuse: x}}\n")).collect();
        assert!(error(&format!("rules:\n{many}")).contains("1001 rules: at most 1000"));
        let long = format!("rules: []\n#{}", "x".repeat(MAX_FILE));
        assert!(error(&long).contains("at most 4194304 are allowed"));
        assert!(error(&format!("rules: {}", "[".repeat(100_000))).starts_with("line 1, column "));
        // Each list has ten of the list before it.
        let lists =
            (1..20).map(|n| format!("&l{n} [{}]", vec![format!("*l{}", n - 1); 10].join(",")));
        let lists: Vec<String> = std::iter::once("&l0 [x]".to_owned()).chain(lists).collect();
        let laughs = format!("rules: [{{name: a, remove: {{env: [{}]}}}}]", lists.join(", "));
        assert!(error(&laughs).starts_with("line 1, column "));
        for text in
            ["rules:\n  - name: a\0", "rules: [{name: a, name: b, refuse: c}]", "--- 1\n--- 2"]
        {
            error(text);
        }
    }

    #[test]
    fn values_that_are_texts_are_as_they_are_written() {
        let values = "{A: 3.10, B: 012, C: 0x1F, D: 1e3, E: 'x', F: -0, G: \"1.0\", H: 1_000}";
        for start in ["", "\u{feff}", "# \u{1f511}\n"] {
            let text = format!("{start}rules: [{{name: a, set: {{env: {values}}}}}]");
            let rules = load(&text).unwrap();
            let found = rules.rules[0].steps.iter().map(|step| match &step.action {
                Action::Set(_, Amount::Constant(FieldValue::Text(text))) => text.as_str(),
                other => panic!("{other:?}"),
            });
            let found: Vec<_> = found.collect();
            assert_eq!(found, ["3.10", "012", "0x1F", "1e3", "x", "-0", "1.0", "1_000"]);
        }
        let text = "rules: [{name: a, set: {env: {A: &a 1.10}, annotations: {b: *a}}}]";
        let rules = format!("{:?}", load(text).unwrap());
        assert_eq!(rules.matches("\"1.10\"").count(), 2, "{rules}");
        for (message, expected) in [("'false'", "false"), ("1.10", "1.10")] {
            let rules = load(&format!("rules: [{{name: a, refuse: {message}}}]")).unwrap();
            let refuse = rules.rules[0].refuse.as_ref().unwrap();
            assert_eq!(refuse.constant(), Some(expected));
        }
    }

    /// A key without a value would have the meaning of no key.
    #[test]
    fn a_key_has_a_value_without_a_tag() {
        let mount =
            |more: &str| format!("add: {{mounts: [{{source: /a, destination: /b, {more}}}]}}");
        let hook = |more: &str| format!("add: {{hooks: [{{stage: poststop, path: /a, {more}}}]}}");
        let members = [
            "match",
            "refuse",
            "override",
            "observe",
            "set",
            "set: {pids.limit",
            "set: {env",
            "set: {env: {A",
            "default: {rlimits: {nofile",
            "at_most: {cpus",
            "at_least",
            "add: {cdi",
            "remove: {env",
            "strip",
            "strip: {env",
        ];
        let opened = |member: &str| "}".repeat(member.matches('{').count());
        for value in ["", " ~", " null", " !tag", " !tag x", " !!null x"] {
            let with = |member: &&str| format!("{member}:{value}{}", opened(member));
            let mut all: Vec<String> = members.iter().map(with).collect();
            all.extend(["type", "options"].map(|key| mount(&format!("{key}:{value}"))));
            all.extend(["args", "env", "timeout"].map(|key| hook(&format!("{key}:{value}"))));
            for member in all {
                let text = format!("rules:\n  - name: a\n    observe: true\n    {member}\n");
                let text = if member.starts_with("observe") {
                    text.replacen("    observe: true\n", "    refuse: x\n", 1)
                } else {
                    text
                };
                let error = load(&text).err().unwrap_or_else(|| panic!("{text} has no mistake"));
                assert_eq!(error.place.line, 4, "{text}\n{error}");
            }
        }
    }

    #[test]
    fn a_file_without_rules_is_one() {
        for text in ["\n# nothing\n", "rules: []\n", "rules:\n# - name: a\n"] {
            assert!(load(text).unwrap().rules.is_empty(), "{text:?}");
        }
    }

    #[test]
    fn the_files_of_the_cookbook_have_no_mistake() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("cookbook");
        let mut files = 0;
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let rules = load(&fs::read_to_string(&path).unwrap());
            assert!(rules.is_ok_and(|rules| !rules.rules.is_empty()), "{}", path.display());
            files += 1;
        }
        assert_eq!(files, 9);
    }

    #[test]
    fn rules_that_differ_in_their_condition_are_no_conflict() {
        let text = "rules: [{name: a, match: privileged, set: {pids.limit: 1}}, \
             {name: b, match: '!privileged', set: {pids.limit: 2}}]";
        assert_eq!(load(text).unwrap().rules.len(), 2);
    }

    /// Returns the mistake in a file with one rule of these members.
    fn mistake(members: &str) -> Option<String> {
        load(&format!("rules: [{{name: r, {members}}}]")).err().map(|e| e.to_string())
    }

    #[test]
    fn values_that_no_container_can_have_are_mistakes() {
        for (members, expected) in [
            ("set: {memory.limit: -5}", "memory.limit: is from 0 on, or unlimited"),
            ("default: {pids.limit: -2}", "pids.limit: is from 0 on"),
            ("set: {memory.swappiness: 101}", "memory.swappiness: is from 0 to 100"),
            ("set: {cpu.period: 0}", "cpu.period: is from 1ms to 1s"),
            ("set: {cpu.quota: 999}", "cpu.quota: is at least 1ms"),
            ("set: {cpus: 0}", "cpu.quota: of 0 CPUs"),
            ("at_most: {oom_score_adj: 1001}", "oom_score_adj: is from -1000 to 1000"),
            ("set: {cpu.cpus: 3-1}", "cpu.cpus: no list of numbers"),
            ("set: {cpu.mems: a}", "cpu.mems: no list of numbers"),
            ("set: {hugepages: {2M: 1}}", "hugepageLimits[2M]: no page size"),
            ("set: {unified: {../memory.high: '1'}}", "unified[../memory.high]: no file"),
            ("add: {env: {A=B: c}}", "env[A=B]: a variable's name has no ="),
            (r#"add: {env: {A: "\0"}}"#, "env[A]: a text with a NUL character"),
            (r#"add: {env: {"A\0": b}}"#, "a name with a NUL character"),
            ("add: {rlimits: {files: 1}}", "rlimits[RLIMIT_FILES]: no limit of setrlimit(2)"),
            ("add: {mounts: [{source: /a, destination: b}]}", "mounts[b]: no absolute path"),
            ("add: {devices: [{path: fuse}]}", "devices[fuse]: no absolute path"),
            ("add: {cdi: [gpu0]}", "cdi_devices[gpu0]: no vendor/class=name"),
            ("add: {hooks: [{stage: poststop, path: x}]}", "hooks[x]: no absolute path"),
        ] {
            let error = mistake(members).unwrap_or_else(|| panic!("{members} has no mistake"));
            assert!(error.contains(expected), "{members}\n{error}\n{expected}");
        }
    }

    #[test]
    fn values_that_containers_can_have_are_none() {
        for members in [
            "set: {memory.limit: unlimited, memory.swappiness: 0, memory.swap: -1}",
            "set: {cpu.cpus: '0-3,8', cpu.mems: '0', cpu.quota: unlimited, oom_score_adj: -1000}",
            "set: {cpus: 10m}",
            "set: {hugepages: {2MB: 2Mi, 1GB: 0}, unified: {memory.high: max}}",
            "add: {cdi: [vendor.example/class=name], devices: [{path: '${labels.x}'}]}",
            "add: {mounts: [{source: /a, destination: '${labels.x}'}], rlimits: {core: 0}}",
        ] {
            assert_eq!(mistake(members), None, "{members}");
        }
    }
}
