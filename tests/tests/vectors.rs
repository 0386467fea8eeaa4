//! Runs all merge vectors, and shows that a vector with a wrong expected result fails.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

use nri_tests::vectors::{Case, run};
use serde_json::{Value, json};
use std::path::Path;

const UPSTREAM: &[&str] = &["vectors/create.jsonl", "vectors/update.jsonl", "vectors/stop.jsonl"];

fn lines(files: &[&str]) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let text: String =
        files.iter().map(|file| std::fs::read_to_string(folder.join(file)).unwrap()).collect();
    text.lines().map(str::to_owned).collect()
}

#[track_caller]
fn check(files: &[&str], count: usize) {
    let lines = lines(files);
    let failures: Vec<String> = lines
        .iter()
        .filter_map(|line| {
            let case = Case::parse(line).unwrap();
            run(&case).err().map(|difference| format!("{}: {difference}", case.id))
        })
        .collect();
    assert!(failures.is_empty(), "{} cases fail:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(lines.len(), count, "number of cases; change it here if cases were added");
}

#[test]
fn all_merge_vectors_pass() {
    check(UPSTREAM, 910);
}

/// Cases in which this project differs from upstream on purpose; the ids name the differences.
#[test]
fn cases_with_deliberate_differences_from_upstream_pass() {
    check(&["differences.jsonl"], 24);
}

/// Runs each case again with wrong expected results. Each of them has another value for one leaf
/// (only every 29th is tried), has one more member, update or owner, or is an error.
#[test]
fn a_vector_with_a_wrong_expected_result_fails() {
    // A step keeps the test short. It is a prime, and each case begins at another offset, so that
    // all kinds of leaves are changed.
    const STEP: usize = 29;
    let mut wrong = 0;
    for (offset, line) in lines(UPSTREAM).iter().enumerate() {
        let original: Value = serde_json::from_str(line).unwrap();
        let mut check = |change: &dyn Fn(&mut Value)| {
            let mut case = original.clone();
            change(&mut case["expect"]);
            wrong += 1;
            // A change can make the case malformed, which fails as well.
            if let Ok(case) = Case::parse(&case.to_string()) {
                let expect = &original["expect"];
                assert!(
                    run(&case).is_err(),
                    "{}: passes with a wrong expected result\n{expect}\n{case:?}",
                    case.id
                );
            }
        };
        if original["expect"].get("error").is_some() {
            check(&|expect| {
                expect["error"] = json!("plugins \"00-x\" and \"00-y\" both tried to set Env Z")
            });
            check(&|expect| expect["stage"] = json!("elsewhere"));
            check(&|expect| *expect = json!({"updates": []}));
            continue;
        }
        let leaves = leaves(&mut original["expect"].clone(), None);
        for leaf in (0..leaves).skip(offset % STEP).step_by(STEP) {
            check(&|expect| assert!(change_leaf(expect, leaf)));
        }
        check(&|expect| {
            expect["updates"].as_array_mut().unwrap().push(json!({"containerId": "more"}))
        });
        check(&|expect| *expect = json!({"error": "no", "stage": "merge"}));
        if original["op"] == "create" {
            check(&|expect| expect["spec"]["more"] = json!(0));
            check(&|expect| expect["owners"]["more"] = json!({"simple": {"7": "00-p"}}));
        }
    }
    // Fewer would mean that `leaves` no longer finds the values of a result.
    assert!(wrong > 3000, "only {wrong} wrong results were tried");
}

/// Changes a leaf. Returns whether a leaf with this index exists.
fn change_leaf(value: &mut Value, leaf: usize) -> bool {
    leaves(value, Some(leaf)) > leaf
}

/// Counts the leaves of an expected result, and changes the leaf with the index `change`.
fn leaves(value: &mut Value, change: Option<usize>) -> usize {
    fn walk(value: &mut Value, change: Option<usize>, count: &mut usize) {
        match value {
            Value::Object(map) => map.values_mut().for_each(|inner| walk(inner, change, count)),
            Value::Array(list) => list.iter_mut().for_each(|inner| walk(inner, change, count)),
            leaf => {
                if change == Some(*count) {
                    *leaf = match &*leaf {
                        Value::Null => json!({"containerId": "other"}),
                        Value::Bool(b) => json!(!b),
                        Value::Number(n) => json!(n.as_i64().map_or(1, |n| n ^ 1)),
                        other => json!(format!("{}1", other.as_str().unwrap_or_default())),
                    };
                }
                *count += 1;
            }
        }
    }
    let mut count = 0;
    walk(value, change, &mut count);
    count
}
