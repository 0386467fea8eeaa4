//! Rules of the repository as tests: what reviews would otherwise have to remember.
//!
//! A rule is a function from names and texts to what is wrong. Each test first shows, on a few
//! lines of its own, that the rule can fail, and then applies it to the repository. Rules stop
//! accidents, not intent: most read text; those about modules and type names read syntax trees.
//! Formatting and lints are for `cargo fmt` and clippy.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which clippy takes for ordinary code"
)]

mod circles;
mod documents;
mod edges;
mod layout;
mod manifests;
mod mirror;
mod modules;
mod names;
mod paths;
mod purity;
mod source;
mod texts;
mod unsafety;

use source::Source;

/// Fails with all that is wrong in the repository.
#[track_caller]
fn clean(problems: Vec<String>) {
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// A rule says exactly this of a file.
#[track_caller]
fn check(rule: impl Fn(&Source) -> Vec<String>, path: &str, text: &str, expected: &[&str]) {
    assert_eq!(rule(&Source::new(path, text)), expected, "{path}: {text}");
}
