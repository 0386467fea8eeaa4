//! Checks that each message of the troubleshooting page is one of the programs, and that a test
//! provokes it.

use crate::clean;
use crate::source::{root, sources};
use std::fs::read_to_string;

/// The page with the messages: the first cells of rows, in its section "Messages".
const PAGE: &str = "docs/reference/troubleshooting.md";
/// Stands for a part that differs.
const ANY: char = '…';

/// Returns the messages of the page.
fn messages(page: &str) -> Vec<String> {
    let section = page.split("\n## ").find(|section| section.starts_with("Messages\n"));
    let message = |line: &str| {
        let cell = line.strip_prefix("| `")?.split("` | ").next()?;
        Some(cell.replace("\\|", "|"))
    };
    section.unwrap_or_default().lines().filter_map(message).collect()
}

/// Returns the parts of a message that do not differ, the longest first.
fn parts(message: &str) -> Vec<&str> {
    let trimmed = message.split(ANY).map(|part| part.trim_matches([' ', ':', ',', '(', ')']));
    let mut parts: Vec<_> = trimmed.filter(|part| part.len() >= 4).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.len()));
    parts
}

/// Joins string literals that continue in the next line, and removes escapes of quotes.
fn joined(code: &str) -> String {
    let mut lines = code.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |text, line| text + line.trim_start()).replace("\\\"", "\"")
}

/// Returns the messages that no program has, or that no test provokes.
fn differences(page: &str, programs: &str, tests: &str) -> Vec<String> {
    let mut found = Vec::new();
    for message in messages(page) {
        let parts = parts(&message);
        if parts.is_empty() || !parts.iter().all(|part| programs.contains(part)) {
            found.push(format!("{PAGE}: no program has the message `{message}`"));
        }
        if !parts.first().is_some_and(|part| tests.contains(part)) {
            found.push(format!("{PAGE}: no test provokes `{message}`"));
        }
    }
    found
}

#[test]
fn each_message_of_the_troubleshooting_page_exists_and_is_provoked() {
    let page = "# T\n\n## Messages\n\n| `a … goes wrong` | x | y |\n| `never \\| seen` | x | y |\n\
                \n## Other\n\n| `code` | x |\n";
    assert_eq!(messages(page), ["a … goes wrong", "never | seen"]);
    let (programs, tests) = ("\"{a} goes wrong\"", "contains(\"it goes \\\n   wrong\")");
    assert_eq!(differences(page, programs, &joined(tests)).len(), 2);
    assert_eq!(differences(page, "goes wrong never | seen", "goes wrong").len(), 1);

    let (mut programs, mut tests) = (String::new(), String::new());
    // The cases of some tests are JSON, with the expected message.
    for source in sources(&[".rs", ".json"]) {
        let (code, unit_tests) =
            source.text.split_once("#[cfg(test)]").unwrap_or((&source.text, ""));
        if source.is_below(&["src", "shim", "hooks"]) && !source.path.contains("/tests/") {
            programs += code;
            tests += unit_tests;
        } else {
            tests += &source.text;
        }
    }
    let page = read_to_string(root().join(PAGE)).unwrap();
    assert!(messages(&page).len() > 50, "the section has lost its messages");
    clean(differences(&page, &joined(&programs), &joined(&tests)));
}
