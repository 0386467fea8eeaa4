//! Checks Markdown files: links resolve, and named paths and tests exist.

use crate::clean;
use crate::source::{Source, root, rust, sources};

/// Top-level folders with which a path may begin.
const TOP: &[&str] = &[
    "src/",
    "shim/",
    "hooks/",
    "tests/",
    "integration/",
    "packaging/",
    "docs/",
    ".ci/",
    ".github/",
];

/// Placeholder name in instructions for adding a file.
const EXAMPLE: &str = "frob";

/// Documents that describe earlier commits, and may name removed paths.
const HISTORY: &[&str] = &["CHANGELOG.md"];

/// Returns the path of a link or name relative to the repository; `None` if it is outside.
fn resolved(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns the lines outside of code blocks, with line numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((number + 1, line))
    })
}

/// Returns the link anchor of a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// Returns the targets of the links of a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// Returns links to missing files or headings; `text` returns the content of a file, if it exists.
fn broken_links(source: &Source, text: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let mut found = vec![];
    for (number, line) in prose(&source.text) {
        for link in links(line).filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
        {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let path = if file.is_empty() {
                Some(source.path.clone())
            } else {
                resolved(&source.path, file)
            };
            let target = path.and_then(|path| text(&path));
            let is_resolved = target.is_some_and(|target| {
                heading.is_empty()
                    || prose(&target).any(|(_, l)| l.starts_with('#') && anchor(l) == heading)
            });
            if !is_resolved {
                found.push(format!("{}:{number}: {link} does not resolve", source.path));
            }
        }
    }
    found
}

/// Whether a path component is a pattern or placeholder: `*.rs`, `NAME.rs`.
fn is_placeholder(part: &str) -> bool {
    let name = part.split('.').next().unwrap_or_default();
    part.contains(['*', '{', '<', '…'])
        || !part.ends_with(".md") && !name.is_empty() && name.chars().all(char::is_uppercase)
}

/// Returns paths in code spans that exist neither relative to the repository nor relative to one of
/// the folders that contain the document.
fn missing_paths(source: &Source, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let folders: Vec<&str> =
        source.path.match_indices('/').map(|(at, _)| &source.path[..=at]).collect();
    let mut found = vec![];
    for (number, line) in prose(&source.text) {
        for word in line.split('`').skip(1).step_by(2) {
            let path = word.split([' ', ':']).next().unwrap_or_default();
            let is_in_repository = TOP.iter().any(|top| path.starts_with(top));
            if !is_in_repository || path.contains(EXAMPLE) || path.split('/').any(is_placeholder) {
                continue;
            }
            let mut places = folders.iter().map(|folder| format!("{folder}{path}"));
            if !exists(path) && !places.any(|path| exists(&path)) {
                found.push(format!("{}:{number}: {path} does not exist", source.path));
            }
        }
    }
    found
}

/// Returns names in tables of tests for which no test exists. A row of such a table is a number and
/// the name of a test.
fn missing_tests(source: &Source, is_test: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut found = vec![];
    for (number, line) in prose(&source.text) {
        let row = line.strip_prefix("| ").and_then(|line| line.strip_suffix("` |"));
        let Some((row, name)) = row.and_then(|row| row.split_once(" | `")) else { continue };
        let is_name = !name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        if row.parse::<u32>().is_ok() && is_name && !is_test(name) {
            found.push(format!("{}:{number}: no test {name}", source.path));
        }
    }
    found
}

#[test]
fn links_between_documents_resolve() {
    let files = |path: &str| match path {
        "b.md" => Some("# Of `b`, and c\n```sh\n# code\n```".to_owned()),
        "docs/a.md" => Some("# Own\n".to_owned()),
        "src" => Some(String::new()),
        _ => None,
    };
    let check = |text: &str, expected: &[&str]| {
        let found = broken_links(&Source::new("docs/a.md", text), &files);
        assert_eq!(found, expected, "{text}");
    };
    check("[a](../b.md) [a](../b.md#of-b-and-c) [s](../src/) [w](https://x.y/z)", &[]);
    check("[a](b.md)", &["docs/a.md:1: b.md does not resolve"]);
    check("x\n[a](../b.md#d) [b](#own)", &["docs/a.md:2: ../b.md#d does not resolve"]);
    check("[a](../b.md#code)", &["docs/a.md:1: ../b.md#code does not resolve"]);
    check("[a](../../b.md)", &["docs/a.md:1: ../../b.md does not resolve"]);
    check("```\n[a](b.md)\n```", &[]);

    let text = |path: &str| {
        let path = root().join(path);
        if path.is_dir() { Some(String::new()) } else { std::fs::read_to_string(path).ok() }
    };
    clean(sources(&[".md"]).iter().flat_map(|source| broken_links(source, &text)).collect());
}

#[test]
fn documents_name_only_paths_that_exist() {
    let exists = |path: &str| ["src/a.rs", "tests/one.sh"].contains(&path);
    let check = |text: &str, expected: &[&str]| {
        assert_eq!(missing_paths(&Source::new("a.md", text), &exists), expected, "{text}");
    };
    check("`src/a.rs`, `tests/one.sh NAME`, `src/NAME.rs`, `src/*/src`, `/usr/src/b`", &[]);
    check("x\n`src/b.rs` and src/c.rs", &["a.md:2: src/b.rs does not exist"]);
    check("```\n`src/b.rs`\n```", &[]);
    let below = Source::new("src/x/a.md", "`src/a.rs`, `tests/b.rs`, `tests/c.rs`");
    let found = missing_paths(&below, &|path| ["src/a.rs", "src/x/tests/b.rs"].contains(&path));
    assert_eq!(found, ["src/x/a.md:1: tests/c.rs does not exist"]);

    let exists = |path: &str| root().join(path).exists();
    let all = sources(&[".md"]);
    let current = all.iter().filter(|source| !HISTORY.contains(&source.path.as_str()));
    clean(current.flat_map(|source| missing_paths(source, &exists)).collect());
}

#[test]
fn documents_name_only_tests_that_exist() {
    let check = |text: &str, expected: &[&str]| {
        let found = missing_tests(&Source::new("a.md", text), &|name| name == "a_b");
        assert_eq!(found, expected, "{text}");
    };
    check("| 1 | `a_b` |\n| 1 | text | `c_d` |\n| x | `c_d` |\n| 2 | `c_d`: text |", &[]);
    check("| 1 | `src/a.rs` | `c_d` |\n| 2 | `c_d`, text, `e` |", &[]);
    check("| | test |\n|---|---|\n| 12 | `c_d` |", &["a.md:3: no test c_d"]);

    let is_test = |name: &str| {
        let function = format!("fn {name}(");
        rust().iter().any(|source| source.code.contains(&function))
    };
    clean(sources(&[".md"]).iter().flat_map(|source| missing_tests(source, &is_test)).collect());
}
