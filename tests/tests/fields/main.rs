//! The field table: every adjustable field of the protocol has a row in `nri-api`, is merged, has
//! an owner, and has a case that runs merge and spec and fails without the field. A field that
//! upstream adds to the protocol fails these tests until it has all four.
//!
//! `cargo test -p nri-tests --test fields -- --nocapture` prints the table.

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

use nri_api::{fields, proto::ContainerAdjustment};
use nri_config::FIELD_GROUPS;
use std::collections::BTreeSet;
use table::{Claim, ROWS, Row};

#[test]
fn every_field_has_a_row_and_a_case() {
    print!("{}", printed(&ROWS));
    let problems = rules::problems(&ROWS, &cases::all());
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// `NRI_REGENERATE=1 cargo test -p nri-tests --test fields groups` rewrites the file.
#[test]
fn the_groups_of_the_configuration_are_those_of_the_fields() {
    // The other groups are of changes that are no fields, or of several groups.
    let others = ["evict", "resources", "runtime_annotations", "update"];
    let groups: BTreeSet<_> = fields().map(|row| row.group).chain(others).collect();
    if spec_tests::regenerate() {
        let path = "../src/config/src/generated/field_groups.rs";
        let text = std::fs::read_to_string(path).unwrap();
        let (head, _) = text.split_once("= &[\n").unwrap();
        let rows: String = groups.iter().map(|group| format!("    {group:?},\n")).collect();
        std::fs::write(path, format!("{head}= &[\n{rows}];\n")).unwrap();
    } else {
        assert!(groups.iter().eq(FIELD_GROUPS), "stale: run this test with NRI_REGENERATE=1");
    }
}

/// Each rule reports a table that breaks it.
#[test]
fn an_error_in_the_field_table_is_reported() {
    let pids = "linux.resources.pids";
    let all = cases::all();
    let changed = |change: &dyn Fn(&mut Row)| {
        let mut rows = ROWS.clone();
        rows.iter_mut().filter(|row| row.path == pids).for_each(change);
        rows
    };
    let check = |rows: Vec<Row>, cases: &[cases::Case], expected: &str| {
        let problems = rules::problems(&rows, cases);
        assert!(
            problems.iter().any(|problem| problem.contains(expected)),
            "{expected:?} not in {problems:?}"
        );
    };
    let without: Vec<_> = ROWS.iter().filter(|row| row.path != pids).cloned().collect();
    check(without, &all, "linux.resources.pids has no row");
    let twice = ROWS.iter().chain(ROWS.iter().filter(|row| row.path == pids));
    check(twice.cloned().collect(), &all, "a field has two rows");
    let burst = "linux.resources.cpu.burst";
    check(changed(&|row| row.path = burst.to_owned()), &all, "is not in the protocol");
    check(ROWS.clone(), &[], "no case uses linux.resources.pids.limit");
    let elsewhere = vec!["/linux/resources/cpu".to_owned()];
    check(
        changed(&|row| row.pointers.clone_from(&elsewhere)),
        &all,
        "changes /linux/resources/pids",
    );
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
    let mut lines = vec![["field", "values", "owned as", "changes"].map(str::to_owned)];
    lines.extend(rows.iter().map(|row| {
        let values = protocol::leaves::<ContainerAdjustment>(&row.path).len().to_string();
        [row.path.clone(), values, claim(row), row.pointers.join(" ")]
    }));
    // A longer cell widens only its own line, not the whole column.
    let width = |column: usize| {
        lines.iter().map(|line| line[column].chars().count().min(48)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..4).map(width).collect();
    let line = |cells: &[String; 4]| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    lines.iter().map(line).collect()
}
