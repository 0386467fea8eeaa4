//! Rules of the field table: every field of the protocol has a row, and every row has a handler in
//! `nri-merge`, a handler in `nri-spec`, and cases that use the field. A rule returns problems as
//! text, so that a test can show that each problem is reported.

use crate::cases::{file, run, without};
use crate::pointers::{allowed, outside};
use crate::protocol::{leaves, paths};
use crate::spec_tests::{assert_valid, message, protojson, read_json};
use crate::table::Row;
use nri_api::proto::ContainerAdjustment;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::read_to_string;
use std::path::Path;

/// Checks all rules against the sources and cases below `root`, the repository.
pub(crate) fn problems(rows: &[Row], root: &Path) -> Vec<String> {
    let mut found = check_fields(rows);
    found.extend(check_files(rows, root));
    for row in rows {
        found.extend(check_handlers(row, root));
        found.extend(check_cases(row, rows, root));
    }
    found
}

/// Checks that the rows are exactly the fields of the protocol.
fn check_fields(rows: &[Row]) -> Vec<String> {
    let protocol = paths::<ContainerAdjustment>();
    let table: BTreeSet<String> = rows.iter().map(|row| row.path.to_owned()).collect();
    let missing = protocol.difference(&table).map(|path| format!("{path} has no row"));
    let unknown = table.difference(&protocol).map(|path| format!("{path} is not in the protocol"));
    let duplicate = (rows.len() != table.len()).then(|| "a field has two rows".to_owned());
    missing.chain(unknown).chain(duplicate).collect()
}

/// Checks that the files of the table are exactly those in the lists of `nri-merge` and `nri-spec`.
fn check_files(rows: &[Row], root: &Path) -> Vec<String> {
    let table: BTreeSet<String> = rows.iter().map(|row| row.file.to_owned()).collect();
    let mut merge = listed(root, "src/merge/src/apply.rs", "groups![", "");
    assert!(
        merge.remove("resources"),
        "`resources`, which has a list of its own, is not in src/merge/src/apply.rs"
    );
    merge.extend(listed(root, "src/merge/src/resources/groups.rs", "groups![", ""));
    let spec = listed(root, "src/spec/src/apply.rs", "= [", "::apply");
    let mut found = Vec::new();
    for (name, list) in [("nri-merge", merge), ("nri-spec", spec)] {
        found.extend(table.difference(&list).map(|f| format!("{f} is not in the list of {name}")));
        found.extend(list.difference(&table).map(|f| format!("{f} of {name} has no row")));
    }
    found
}

/// Returns the entries of the constant `GROUPS` in a file, without the ending that each entry has.
/// The list of entries begins after `open`.
fn listed(root: &Path, file: &str, open: &str, ending: &str) -> BTreeSet<String> {
    let text = read_to_string(root.join(file)).unwrap();
    let list = text
        .split_once("const GROUPS")
        .and_then(|(_, rest)| rest.split_once(open)?.1.split_once(']'));
    let words = list.unwrap().0.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(|word| word.strip_suffix(ending).unwrap().to_owned()).collect()
}

/// Checks that both files of a row exist and name its field, or use the table of resource fields.
fn check_handlers(row: &Row, root: &Path) -> Vec<String> {
    let field = row.path.rsplit('.').next().unwrap_or_default();
    let check = |side| {
        let name = format!("src/{side}/src/{}.rs", row.file);
        let folder = root.join("src").join(side).join("src");
        let file = format!("{}.rs", row.file);
        let paths = [file.clone(), format!("fields/{file}"), format!("resources/{file}")];
        let paths = paths.into_iter().chain([format!("{}/apply.rs", row.file)]);
        let text = paths.map(|path| read_to_string(folder.join(path))).find_map(Result::ok);
        let Some(mut text) = text else {
            return Some(format!("{}: {name} does not exist", row.path));
        };
        if ["fields_of(", "resource_field(", "controller::"].iter().any(|name| text.contains(name))
        {
            text += &read_to_string(root.join("src/api/src/resource_field.rs")).unwrap();
        }
        let is_named =
            text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == field);
        (!is_named).then(|| format!("{}: {name} does not name {field}", row.path))
    };
    ["merge", "spec"].into_iter().filter_map(check).collect()
}

/// Checks the cases of a row. Each case must have the expected result, and must change only values
/// that the rows allow. For each value of the field, the result of a case must differ if the
/// adjustment lacks this value.
fn check_cases(row: &Row, rows: &[Row], root: &Path) -> Vec<String> {
    let mut unused: Vec<String> = leaves::<ContainerAdjustment>(row.path);
    let mut found = Vec::new();
    for name in row.cases {
        let path = root.join(file(name));
        if !path.is_file() {
            found.push(format!("{}: {} does not exist", row.path, path.display()));
            continue;
        }
        let case = read_json(&path);
        let adjust = protojson(&message::<ContainerAdjustment>(&case["adjust"]));
        found
            .extend(case_problem(&case, &adjust, rows).map(|problem| format!("{name}: {problem}")));
        let result = run(&case, &adjust).map(|after| after.to_string());
        let needs = |leaf: &String| {
            let mut all = without(&adjust, leaf).into_iter();
            all.any(|smaller| run(&case, &smaller).map(|after| after.to_string()) != result)
        };
        let used: Vec<String> =
            leaves::<ContainerAdjustment>(row.path).into_iter().filter(needs).collect();
        if used.is_empty() {
            found.push(format!("{}: case {name} does not use the field", row.path));
        }
        unused.retain(|leaf| !used.contains(leaf));
    }
    found.extend(unused.into_iter().map(|leaf| format!("{}: no case uses {leaf}", row.path)));
    found
}

/// Returns the problem of a case, if it has one.
fn case_problem(case: &Value, adjust: &Value, rows: &[Row]) -> Option<String> {
    let after = match run(case, adjust) {
        Err(error) => return Some(format!("refused: {error}")),
        Ok(after) => after,
    };
    // Compared as text, because the order of keys counts.
    let (expected, got) = (case["expect"].to_string(), after.to_string());
    if got != expected {
        return Some(format!("expected {expected}, got {got}"));
    }
    if case["incomplete"] != json!(true) {
        assert_valid(&after);
    }
    let unexpected = outside(&case["spec"], &after, &allowed(adjust, rows));
    (!unexpected.is_empty()).then(|| format!("changes {} as well", unexpected.join(", ")))
}
