//! The matrix as a document, with what each cell means that is not `ok`.

use super::{
    matrix::{cases, find, word},
    notes::Notes,
    results::{Outcome, Results, Status},
};
use std::collections::BTreeMap;

/// Columns of a line.
const COLUMNS: usize = 100;

/// Longest text of a difference: the beginning says what differs.
const MAX_DETAIL: usize = 400;

const INTRODUCTION: &str = "\
# Conformance of runtimes to NRI

How runtimes with NRI behave, case by case, compared with what NRI says. Written by `make
conformance`; see [its README](../../integration/conformance/README.md) for what the cases are and
how to point them at another runtime. A case is a set of plugins with their replies, and steps that
create containers and look at what became of them. The cases state the rules of upstream's protocol
and of its merge, so that they are the same for all runtimes.

`ok`: the runtime did what the case expects. `FAIL`: it did something else. `differs`: it does
something else on purpose. `n/a`: the runtime, its version of NRI or its command line does not have
what the case needs. All cells but `ok` are explained below.
";

/// Returns the document.
pub fn document(all: &[Results], notes: &Notes) -> String {
    let mut text = INTRODUCTION.to_owned();
    text +=
        "\n## Runtimes\n\n| column | NRI of | engine, or its client | NRI |\n|---|---|---|---|\n";
    for r in all {
        let runtime = format!("{} {}", r.runtime, r.version);
        let engine = r.engine.split(", build").next().unwrap_or_default();
        text += &format!("| {} | {} | {engine} | {} |\n", r.label, runtime.trim(), r.nri);
    }
    text += "\nNRI: the version that the runtime announces, or for those before v0.12 the newest\n\
             one whose events it knows.\n";
    text += &matrix(all);
    text += &what_cases_require(all);
    text += &vectors(all);
    text += &explanations(all, notes);
    text
}

fn matrix(all: &[Results]) -> String {
    let mut text = "\n## Matrix\n\n| |".to_owned();
    for results in all {
        text += &format!(" {} |", results.label);
    }
    text += &format!("\n|---|{}\n", "---|".repeat(all.len()));
    for case in cases(all) {
        text += &format!("| {case} |");
        for results in all {
            let cell = find(results, &case).map_or("", |outcome| word(outcome.status));
            text += &format!(" {cell} |");
        }
        text += "\n";
    }
    text
}

fn what_cases_require(all: &[Results]) -> String {
    let mut text = "\n## What the cases require\n\n".to_owned();
    for case in cases(all) {
        if let Some(outcome) = all.iter().find_map(|results| find(results, &case)) {
            text += &item(&format!("`{case}`: {}", outcome.about));
        }
    }
    text
}

fn vectors(all: &[Results]) -> String {
    let mut text = "\n## Merge vectors\n\n".to_owned();
    text += &paragraph(
        "The cases `vectors/...` are [the recorded answers of upstream's \
         merge](../../tests/cases/vectors/README.md), as far as they can be seen through a \
         runtime. Numbers are vectors that passed, of those that were run.",
    );
    text += "\n| column | conflicts | results | updates |\n|---|---|---|---|\n";
    for results in all {
        let count = |case: &str| {
            let counts = find(results, case).and_then(|outcome| outcome.counts.as_ref());
            match counts {
                Some(counts) if counts.total > 0 => format!("{}/{}", counts.passed, counts.total),
                _ => word(Status::Unsupported).to_owned(),
            }
        };
        let cells = ["vectors/conflicts", "vectors/results", "vectors/updates"].map(count);
        text += &format!("| {} | {} |\n", results.label, cells.join(" | "));
    }
    text += "\nThe other vectors were not run:\n\n";
    let mut reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for results in all {
        let counts = results.outcomes.iter().filter_map(|outcome| outcome.counts.as_ref());
        for (reason, number) in counts.flat_map(|counts| &counts.left_out) {
            let text = format!("{number}: {reason}");
            reasons.entry(text).or_default().push(&results.label);
        }
    }
    for (reason, labels) in reasons {
        let labels = if labels.len() == all.len() { "all".to_owned() } else { labels.join(", ") };
        text += &item(&format!("{reason} ({labels})"));
    }
    text
}

/// Returns what each cell means that is not `ok`; equal cells of several runtimes are one item.
fn explanations(all: &[Results], notes: &Notes) -> String {
    let mut text = String::new();
    let kinds = [
        (Status::Fail, "What failed"),
        (Status::Deliberate, "What differs on purpose"),
        (Status::Unsupported, "What is not supported"),
        (Status::Skipped, "What was skipped"),
    ];
    for (status, title) in kinds {
        let mut items: Vec<(String, Vec<&str>)> = Vec::new();
        for case in cases(all) {
            for results in all {
                let Some(outcome) = find(results, &case).filter(|o| o.status == status) else {
                    continue;
                };
                let meaning = format!("`{case}`: {}", meaning(outcome, results, notes));
                match items.iter_mut().find(|(other, _)| *other == meaning) {
                    Some((_, labels)) => labels.push(&results.label),
                    None => items.push((meaning, vec![&results.label])),
                }
            }
        }
        if !items.is_empty() {
            text += &format!("\n## {title}\n\n");
        }
        for (meaning, labels) in items {
            text += &item(&format!("{}: {meaning}", labels.join(", ")));
        }
    }
    text
}

fn meaning(outcome: &Outcome, results: &Results, notes: &Notes) -> String {
    let note = notes.find(&outcome.case, &results.runtime);
    let note = note
        .filter(|_| matches!(outcome.status, Status::Fail | Status::Deliberate))
        .filter(|note| note.applies_to(&outcome.detail));
    let Some(note) = note else { return quoted(&outcome.detail) };
    match &note.link {
        Some(link) => format!("{} See [{link}]({link}).", note.text),
        None => format!("{} Seen: {}", note.text, quoted(&outcome.detail)),
    }
}

/// Returns the beginning of a text as code, which Markdown does not interpret.
fn quoted(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default().replace('`', "'");
    let lines = text.lines().count();
    let mut short: String = first.chars().take(MAX_DETAIL).collect();
    if short.len() < first.len() {
        short += " ...";
    }
    let more = if lines > 1 { format!(" and {} more", lines - 1) } else { String::new() };
    format!("`{short}`{more}.")
}

/// Returns an item of a list.
fn item(text: &str) -> String {
    wrapped(text, "* ", "  ")
}

fn paragraph(text: &str) -> String {
    wrapped(text, "", "")
}

/// Wraps a text at spaces.
fn wrapped(text: &str, first: &str, rest: &str) -> String {
    let (mut lines, mut line) = (String::new(), first.to_owned());
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines += &line;
            lines += "\n";
            line = rest.to_owned();
            is_empty = true;
        }
        if !is_empty {
            line += " ";
        }
        line += word;
        is_empty = false;
    }
    lines + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_at_spaces() {
        let text = item(&"word ".repeat(40));
        assert!(text.lines().all(|line| line.len() <= COLUMNS), "{text}");
        assert_eq!(text.lines().count(), 3);
        assert!(text.starts_with("* word") && text.contains("\n  word"));
    }

    #[test]
    fn a_long_difference_is_cut() {
        assert_eq!(quoted("a\nb\nc"), "`a` and 2 more.");
        assert_eq!(quoted(&"x".repeat(500)).len(), MAX_DETAIL + " ...".len() + 3);
    }
}
