//! Checks texts: each module has a `//!` comment, a file has at most 500 lines, ignored tests have
//! a reason, generated code is marked, no file has markers of unfinished work or names an image
//! registry, and the license exists.

use crate::source::{Source, root, rust, sources};
use crate::{check, clean};

/// Words that mark unfinished work. Concatenated, so that the rule does not find them in this file.
const UNFINISHED: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX"), concat!("HA", "CK")];

/// Hosts of image registries, which tests and manifests must not use. Concatenated, so that the
/// rule does not find them in this file.
const REGISTRIES: &[&str] = &[
    concat!("docker.", "io/"),
    concat!("registry.", "k8s"),
    concat!("quay.", "io"),
    concat!("ghcr.", "io"),
    concat!("gcr.", "io"),
];

/// Maximum number of lines of a file that is not generated.
const MAX_LINES: usize = 500;

fn undocumented(source: &Source) -> Vec<String> {
    let docs = source.text.lines().position(|line| line.starts_with("//!"));
    let before: String = source.code.lines().take(docs.unwrap_or(0)).map(str::trim).collect();
    let is_first = docs.is_some()
        && (before.is_empty() || (before.starts_with("#![") && before.ends_with(']')));
    if is_first || source.is_generated() {
        vec![]
    } else {
        vec![format!("{}: does not begin with //!", source.path)]
    }
}

fn unfinished(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in source.text.lines().enumerate() {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        found.extend(
            words
                .find(|word| UNFINISHED.contains(word))
                .map(|w| format!("{}:{}: {w}", source.path, number + 1)),
        );
    }
    found
}

fn registries(source: &Source) -> Vec<String> {
    let lines = source.text.lines().enumerate();
    let named = lines.filter_map(|(number, line)| {
        let host = REGISTRIES.iter().find(|host| line.contains(*host))?;
        Some(format!("{}:{}: {host}", source.path, number + 1))
    });
    named.collect()
}

fn ignored(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in source.code.lines().enumerate() {
        let is_attribute = line.trim_start().starts_with("#[");
        let mut after =
            line.match_indices("ignore").map(|(at, word)| line[at + word.len()..].trim_start());
        if is_attribute && after.any(|after| after.starts_with(']') || after.starts_with(')')) {
            found.push(format!("{}:{}: ignored without a reason", source.path, number + 1));
        }
    }
    found
}

fn long(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    if source.is_generated() || lines <= MAX_LINES {
        vec![]
    } else {
        vec![format!("{}: {lines} lines, too many", source.path)]
    }
}

fn unmarked(source: &Source) -> Vec<String> {
    let is_marked = source
        .text
        .lines()
        .take(5)
        .any(|line| line.starts_with("//") && line.contains("@generated"));
    match (source.is_generated(), is_marked) {
        (true, false) => vec![format!(
            "{}: in a folder `generated`, but no `@generated` comment in its first 5 lines",
            source.path
        )],
        (false, true) => {
            vec![format!("{}: marked `@generated`, but not in a folder `generated`", source.path)]
        }
        _ => vec![],
    }
}

fn is_apache_license(text: &str) -> bool {
    ["Apache License", "Version 2.0, January 2004", "END OF TERMS AND CONDITIONS"]
        .iter()
        .all(|part| text.contains(part))
}

#[test]
fn every_module_has_a_module_doc_comment() {
    check(undocumented, "a.rs", "//! What.\n\nfn f() {}", &[]);
    check(undocumented, "a.rs", "// why\n#![no_main]\n\n//! What.\n", &[]);
    check(undocumented, "a.rs", "use b;\n", &["a.rs: does not begin with //!"]);
    check(
        undocumented,
        "a.rs",
        "use b;\nmod c {\n//! What.\n}",
        &["a.rs: does not begin with //!"],
    );
    check(undocumented, "a.rs", "", &["a.rs: does not begin with //!"]);
    clean(rust().iter().flat_map(undocumented).collect());
}

#[test]
fn no_file_names_an_image_registry() {
    let line = format!("image: {}library/x", REGISTRIES[0]);
    check(registries, "a.yaml", &line, &[&format!("a.yaml:1: {}", REGISTRIES[0])]);
    check(registries, "a.yaml", "image: localhost/x\n# apt-get install docker.io", &[]);
    let all = sources(&[
        ".rs",
        ".toml",
        ".sh",
        ".md",
        ".go",
        ".mod",
        ".py",
        ".json",
        ".yaml",
        ".service",
        "Makefile",
        "Dockerfile",
    ]);
    clean(all.iter().flat_map(registries).collect());
}

#[test]
fn no_file_has_todo_notes() {
    check(
        unfinished,
        "a.sh",
        &format!("x\n# {}: later", UNFINISHED[0]),
        &[&format!("a.sh:2: {}", UNFINISHED[0])],
    );
    check(unfinished, "a.sh", "mktemp /tmp/XXXXXX # todo", &[]);
    let all = sources(&[
        ".rs", ".toml", ".sh", ".md", ".proto", ".go", ".py", ".yaml", ".service", ".socket",
        "Makefile",
    ]);
    clean(all.iter().filter(|source| !source.is_generated()).flat_map(unfinished).collect());
}

#[test]
fn ignored_tests_have_a_reason() {
    check(ignored, "a.rs", "#[test]\n#[ignore]\nfn f() {}", &["a.rs:2: ignored without a reason"]);
    check(ignored, "a.rs", "#[cfg_attr(x, ignore)]", &["a.rs:1: ignored without a reason"]);
    check(ignored, "a.rs", "#[ignore = \"b\"]\n// #[ignore]\n#[serde(skip)] x.ignore()", &[]);
    clean(rust().iter().flat_map(ignored).collect());
}

#[test]
fn files_have_at_most_500_lines() {
    let lines = |count: usize| "x\n".repeat(count);
    check(long, "a.rs", &lines(MAX_LINES), &[]);
    check(long, "a.rs", &lines(MAX_LINES + 1), &["a.rs: 501 lines, too many"]);
    check(long, "a/generated/b.rs", &lines(MAX_LINES + 1), &[]);
    clean(sources(&[".rs", ".sh"]).iter().flat_map(long).collect());
}

#[test]
fn generated_code_is_marked() {
    check(unmarked, "a/generated/b.rs", "// x\n// @generated\n", &[]);
    check(
        unmarked,
        "a/generated/b.rs",
        "// x\n",
        &["a/generated/b.rs: in a folder `generated`, but no `@generated` comment in its first 5 \
           lines"],
    );
    check(
        unmarked,
        "a/b.rs",
        "// @generated\n",
        &["a/b.rs: marked `@generated`, but not in a folder `generated`"],
    );
    clean(rust().iter().flat_map(unmarked).collect());
}

#[test]
fn the_license_file_exists() {
    assert!(!is_apache_license("Apache License") && !is_apache_license(""));
    assert!(is_apache_license(&std::fs::read_to_string(root().join("LICENSE")).unwrap()));
}
