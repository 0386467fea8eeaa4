//! The matrix for a terminal: cases by runtimes.

use super::results::{Outcome, Results, Status};
use comfy_table::{Table, presets};

/// Lines of what differed that are printed of a case; all of them are in the file of results.
const MAX_LINES: usize = 3;

/// Returns the matrix as text, and below it what differed.
pub fn table(all: &[Results]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(std::iter::once("case").chain(all.iter().map(|r| r.label.as_str())));
    for case in cases(all) {
        let cells = all.iter().map(|results| find(results, &case).map_or(String::new(), cell));
        table.add_row(std::iter::once(case.clone()).chain(cells));
    }
    let mut text = table.lines().map(|line| format!("{}\n", line.trim_end())).collect::<String>();
    for results in all {
        for outcome in &results.outcomes {
            if !outcome.detail.is_empty() {
                let (label, word) = (&results.label, word(outcome.status));
                let lines: Vec<&str> = outcome.detail.lines().take(MAX_LINES).collect();
                let detail = lines.join("\n    ");
                text += &format!("\n{label}: {} {word}: {detail}", outcome.case);
                let more = outcome.detail.lines().count() - lines.len();
                if more > 0 {
                    text += &format!("\n    and {more} more");
                }
            }
        }
    }
    text + "\n"
}

/// Returns the names of all cases, in the order in which they first come.
pub(super) fn cases(all: &[Results]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for outcome in all.iter().flat_map(|results| &results.outcomes) {
        if !names.contains(&outcome.case) {
            names.push(outcome.case.clone());
        }
    }
    names
}

/// Returns the result of a case.
pub(super) fn find<'a>(results: &'a Results, case: &str) -> Option<&'a Outcome> {
    results.outcomes.iter().find(|outcome| outcome.case == case)
}

/// Returns the word for a result.
pub(super) fn word(status: Status) -> &'static str {
    match status {
        Status::Pass => "ok",
        Status::Fail => "FAIL",
        Status::Deliberate => "differs",
        Status::Unsupported => "n/a",
        Status::Skipped => "skipped",
    }
}

fn cell(outcome: &Outcome) -> String {
    match &outcome.counts {
        Some(counts) if counts.total > 0 => {
            format!("{} {}/{}", word(outcome.status), counts.passed, counts.total)
        }
        _ => word(outcome.status).to_owned(),
    }
}
