//! Tests of repository rules, so that reviews need not check them.
//!
//! A rule is a function that takes file names and texts and returns violations. Each test first
//! shows with a few lines of sample code that the rule detects a violation, and then applies the
//! rule to the repository. Rules protect structure, and catch accidents, not attempts to evade
//! them: most search text, and those about imports read syntax trees. Style is left to `cargo fmt`,
//! clippy and readers.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which clippy takes for ordinary code"
)]

mod cycles;
mod documents;
mod edges;
mod findings;
mod imports;
mod layers;
mod manifests;
mod messages;
mod modules;
mod purity;
mod source;
mod texts;
mod traces;
mod unsafety;

use source::Source;

/// Fails with a list of all violations in the repository.
#[track_caller]
fn clean(problems: Vec<String>) {
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// Asserts that a rule reports exactly these violations for a file.
#[track_caller]
fn check(rule: impl Fn(&Source) -> Vec<String>, path: &str, text: &str, expected: &[&str]) {
    assert_eq!(rule(&Source::new(path, text)), expected, "{path}: {text}");
}
