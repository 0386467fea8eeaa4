//! The field table: every adjustable field of the protocol has a handler in `nri-merge`, a handler
//! in `nri-spec`, an owner, and a case that runs both handlers and fails without the field. A field
//! that upstream adds to the protocol fails these tests until it has all four.
//!
//! `cargo test -p nri-tests --test fields -- --nocapture` prints the table. The tests of `nri-spec`
//! check, without the merge, how each value of the protocol changes an OCI config.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests, which clippy takes for ordinary code; prints the table"
)]

mod cases;
mod owners;
mod pointers;
mod protocol;
mod rules;
#[path = "../../../src/spec/tests/common/mod.rs"]
mod spec_tests;
mod table;

use nri_api::proto::ContainerAdjustment;
use std::path::Path;
use table::{Claim, ROWS, Row};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

#[test]
fn every_field_has_its_handlers_and_a_case() {
    print!("{}", printed(ROWS));
    let problems = rules::problems(ROWS, root());
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// Each rule reports a table that breaks it.
#[test]
fn an_error_in_the_field_table_is_reported() {
    let row = |path: &str| *ROWS.iter().find(|row| row.path == path).unwrap();
    let replaced = |path: &str, by: Row| {
        ROWS.iter().map(|row| if row.path == path { by } else { *row }).collect::<Vec<_>>()
    };
    let pids = "linux.resources.pids";
    let changed = |change: &dyn Fn(&mut Row)| {
        let mut row = row(pids);
        change(&mut row);
        replaced(pids, row)
    };
    let check = |rows: Vec<Row>, expected: &str| {
        let problems = rules::problems(&rows, root());
        assert!(
            problems.iter().any(|problem| problem.contains(expected)),
            "{expected:?} not in {problems:?}"
        );
    };
    check(
        ROWS.iter().copied().filter(|r| r.path != pids).collect(),
        "linux.resources.pids has no row",
    );
    check(
        ROWS.iter().copied().filter(|r| r.path != pids).collect(),
        "pids of nri-merge has no row",
    );
    check(ROWS.iter().copied().chain([row(pids)]).collect(), "a field has two rows");
    check(changed(&|r| r.path = "linux.resources.cpu.burst"), "is not in the protocol");
    check(changed(&|r| r.file = "nowhere"), "src/merge/src/nowhere.rs does not exist");
    check(changed(&|r| r.file = "nowhere"), "nowhere is not in the list of nri-spec");
    check(changed(&|r| r.file = "unified"), "src/spec/src/unified.rs does not name pids");
    check(changed(&|r| r.cases = &["fields/nowhere"]), "fields/nowhere.json does not exist");
    check(changed(&|r| r.cases = &[]), "no case uses linux.resources.pids.limit");
    check(changed(&|r| r.cases = &["memory/all"]), "case memory/all does not use the field");
    check(changed(&|r| r.cases = &["env/bad-name"]), "env/bad-name: refused");
    check(changed(&|r| r.pointers = &["/linux/resources/cpu"]), "changes /linux/resources/pids");
}

/// Returns the table as aligned text.
fn printed(rows: &[Row]) -> String {
    let claim = |row: &Row| match row.claim {
        Claim::Of(field) => format!("{field:?}"),
        Claim::Unowned => "-".to_owned(),
        Claim::Clears(fields) => {
            fields.iter().map(|f| format!("-{f:?}")).collect::<Vec<_>>().join(" ")
        }
    };
    let head =
        ["field", "values", "owned as", "merge and spec", "changes", "cases"].map(str::to_owned);
    let mut lines = vec![head];
    lines.extend(rows.iter().map(|row| {
        let values = protocol::leaves::<ContainerAdjustment>(row.path).len().to_string();
        let files = format!("src/{{merge,spec}}/src/{}.rs", row.file);
        let (pointers, cases) = (row.pointers.join(" "), row.cases.join(" "));
        [row.path.to_owned(), values, claim(row), files, pointers, cases]
    }));
    // A longer cell widens only its own line, not the whole column.
    let width = |column: usize| {
        lines.iter().map(|line| line[column].chars().count().min(48)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..6).map(width).collect();
    let line = |cells: &[String; 6]| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    lines.iter().map(line).collect()
}
