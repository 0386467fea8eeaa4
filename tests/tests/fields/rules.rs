//! Rules of the field table: every field of the protocol has a row, and cases that use each of its
//! values. A rule returns problems as text, so that a test can show that each problem is reported.

use crate::cases::{Case, container, run, without};
use crate::pointers::{allowed, outside, requested};
use crate::protocol::{has_field, leaves, paths};
use crate::spec_tests::assert_valid;
use crate::table::{Claim, Row};
use nri_api::proto::{Container, ContainerAdjustment, Field};
use nri_spec::config_changes;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Field of containers that an OCI config lacks.
const NOT_IN_CONFIGS: &str = "linux.resources.blockio_class";

/// Checks all rules.
pub(crate) fn problems(rows: &[Row], cases: &[Case]) -> Vec<String> {
    let mut found = check_fields(rows);
    for case in cases {
        found.extend(case.problem(rows).map(|problem| format!("{}: {problem}", case.name)));
    }
    found.extend(rows.iter().flat_map(|row| unused(row, cases)));
    found.extend(rows.iter().filter_map(|row| unseen(row, cases)));
    found.extend(rows.iter().filter_map(|row| unlisted(row, cases)));
    found
}

/// Checks that the rows are exactly the fields of the protocol.
fn check_fields(rows: &[Row]) -> Vec<String> {
    let protocol = paths::<ContainerAdjustment>();
    let table: BTreeSet<String> = rows.iter().map(|row| row.path.clone()).collect();
    let missing = protocol.difference(&table).map(|path| format!("{path} has no row"));
    let unknown = table.difference(&protocol).map(|path| format!("{path} is not in the protocol"));
    let duplicate = (rows.len() != table.len()).then(|| "a field has two rows".to_owned());
    missing.chain(unknown).chain(duplicate).collect()
}

/// Returns each value of a field without which no case has another result.
fn unused(row: &Row, cases: &[Case]) -> Vec<String> {
    let mut unused = leaves::<ContainerAdjustment>(&row.path);
    for case in cases.iter().filter(|case| requested(&case.adjust, row).is_some()) {
        let result = case.run(&case.adjust);
        unused.retain(|leaf| {
            let mut smaller = without(&case.adjust, leaf).into_iter();
            smaller.all(|smaller| case.run(&smaller) == result)
        });
    }
    unused.into_iter().map(|leaf| format!("{}: no case uses {leaf}", row.path)).collect()
}

/// Reports a field that plugins do not see in the container that an OCI config with it describes.
fn unseen(row: &Row, cases: &[Case]) -> Option<String> {
    let seen = |case: &Case, adjust: &Value| run(&case.case, adjust).map(container).ok();
    let is_seen = |case: &Case| {
        let values = leaves::<ContainerAdjustment>(&row.path).into_iter();
        let mut smaller = values.flat_map(|leaf| without(&case.adjust, &leaf));
        smaller.any(|smaller| seen(case, &smaller) != seen(case, &case.adjust))
    };
    let of_row = |case: &&Case| requested(&case.adjust, row).is_some();
    let is_hidden = row.path == NOT_IN_CONFIGS || !has_field::<Container>(&row.path);
    (!is_hidden && !cases.iter().filter(of_row).any(is_seen))
        .then(|| format!("{}: containers do not have it", row.path))
}

/// Reports a field whose changes are not listed under its owner. Those of CDI devices are listed
/// under the fields that they edit.
fn unlisted(row: &Row, cases: &[Case]) -> Option<String> {
    let Claim::Of(owner) = row.claim else { return None };
    let is_listed = |case: &Case| {
        let after = run(&case.case, &case.adjust).unwrap_or_default();
        let changes = config_changes(&case.case["spec"], &after);
        changes.iter().any(|change| change.row.owner == Some(owner))
    };
    let mut of_row = cases.iter().filter(|case| requested(&case.adjust, row).is_some());
    (owner != Field::CdiDevices && !of_row.any(is_listed))
        .then(|| format!("{}: its changes are not listed", row.path))
}

impl Case {
    fn run(&self, adjust: &Value) -> Result<String, String> {
        run(&self.case, adjust).map(|after| after.to_string())
    }

    /// Returns the problem of a case, if it has one: it must have the expected result, and must
    /// change only values that the rows allow.
    fn problem(&self, rows: &[Row]) -> Option<String> {
        let after = match run(&self.case, &self.adjust) {
            Err(error) => return Some(format!("refused: {error}")),
            Ok(after) => after,
        };
        // Compared as text, because the order of keys counts.
        let (expected, got) = (self.case["expect"].to_string(), after.to_string());
        if got != expected {
            return Some(format!("expected {expected}, got {got}"));
        }
        if self.case["incomplete"] != json!(true) {
            assert_valid(&after);
        }
        let unexpected = outside(&self.case["spec"], &after, &allowed(&self.adjust, rows));
        (!unexpected.is_empty()).then(|| format!("changes {} as well", unexpected.join(", ")))
    }
}
