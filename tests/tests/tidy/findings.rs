//! Checks that each finding of `nrictl doctor` is described in the troubleshooting page, with its
//! severity, and that a test provokes it.

use crate::clean;
use crate::source::{root, sources};
use std::fs::read_to_string;

/// The file with the kinds of findings: a constant each.
const KINDS: &str = "src/ctl/src/doctor/kinds.rs";
/// The page that describes them: an item of a list each.
const PAGE: &str = "docs/reference/troubleshooting.md";
/// The folders with tests of `nrictl doctor`.
const TESTS: &[&str] = &["src/ctl/tests", "src/service/tests/operate"];

/// Returns severity and code of each finding: the name and the first argument of the function that
/// makes the constant.
fn kinds(text: &str) -> Vec<(String, String)> {
    let constants = text.split("FindingKind =").skip(1);
    let kind = |constant: &str| {
        let (severity, rest) = constant.trim_start().split_once('(')?;
        let code = rest.trim_start().strip_prefix('"')?.split('"').next()?;
        Some((severity.to_owned(), code.to_owned()))
    };
    constants.filter_map(kind).collect()
}

/// Returns severity and code of each item of a list that begins with a code and a severity.
fn described(page: &str) -> Vec<(String, String)> {
    let item = |line: &str| {
        let (code, rest) = line.strip_prefix("* `")?.split_once("` (")?;
        let (severity, _) = rest.split_once("): ")?;
        Some((severity.to_owned(), code.to_owned()))
    };
    page.lines().filter_map(item).collect()
}

/// Returns the differences between code, page and tests.
fn differences(kinds_text: &str, page: &str, tests: &str) -> Vec<String> {
    let (kinds, items) = (kinds(kinds_text), described(page));
    let mut found = Vec::new();
    for kind @ (severity, code) in &kinds {
        if items.iter().filter(|item| *item == kind).count() != 1 {
            found.push(format!("{PAGE}: {code} ({severity}) is not in exactly one item"));
        }
        if !tests.contains(&format!("\"{code}\"")) {
            found.push(format!("{}: no test of {code}", TESTS.join(", ")));
        }
    }
    let unknown = items.iter().filter(|item| !kinds.contains(item));
    found.extend(unknown.map(|(severity, code)| {
        format!("{PAGE}: there is no finding {code} with severity {severity}")
    }));
    found
}

#[test]
fn each_finding_of_doctor_is_described_and_tested() {
    let kinds = "const A: FindingKind = problem(\"a-b\", \"x\");\n\
                 const B: FindingKind =\n    ok(\"c\", \"x\");\n";
    let page = "* `a-b` (problem): x\n  y\n* `c` (ok): z\n* `d`\n";
    assert_eq!(differences(kinds, page, "\"a-b\" \"c\""), [""; 0]);
    assert_eq!(differences(kinds, &page.replace("problem", "info"), "\"a-b\"").len(), 3);
    let tests = sources(&[".rs"]).into_iter().filter(|source| source.is_below(TESTS));
    let tests: String = tests.map(|source| source.text).collect();
    let read = |path: &str| read_to_string(root().join(path)).unwrap();
    let text = read(KINDS);
    assert_eq!(self::kinds(&text).len(), text.matches("FindingKind =").count());
    clean(differences(&text, &read(PAGE), &tests));
}
