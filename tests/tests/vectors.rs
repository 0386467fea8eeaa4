//! All merge vectors, each required; and proof that the comparison sees a wrong answer.

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
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(lines.len(), count, "a file lost cases, or got some that are to be counted here");
}

#[test]
fn all_merge_vectors_pass() {
    check(UPSTREAM, 910);
}

/// Where this project differs from upstream on purpose; the ids say in what.
#[test]
fn deliberate_differences_from_upstream_are_listed() {
    check(&["differences.jsonl"], 24);
}

/// Each case again, with an answer that is wrong in one place: every few leaves, the owners, an
/// entry more, the error.
#[test]
fn a_vector_with_a_wrong_answer_fails() {
    const STEP: usize = 29;
    let mut wrong = 0;
    for (offset, line) in lines(UPSTREAM).iter().enumerate() {
        let right: Value = serde_json::from_str(line).unwrap();
        let mut check = |change: &dyn Fn(&mut Value)| {
            let mut case = right.clone();
            change(&mut case["expect"]);
            wrong += 1;
            // A change can make the answer unreadable; that is seen too.
            if let Ok(case) = Case::parse(&case.to_string()) {
                let expect = &right["expect"];
                assert!(
                    run(&case).is_err(),
                    "{}: a changed answer passes\n{expect}\n{case:?}",
                    case.id
                );
            }
        };
        if right["expect"].get("error").is_some() {
            check(&|expect| {
                expect["error"] = json!("plugins \"00-x\" and \"00-y\" both tried to set Env Z")
            });
            check(&|expect| expect["stage"] = json!("elsewhere"));
            check(&|expect| *expect = json!({"updates": []}));
            continue;
        }
        let leaves = leaves(&mut right["expect"].clone(), None);
        for leaf in (0..leaves).skip(offset % STEP).step_by(STEP) {
            check(&|expect| assert!(leaves_after(expect, leaf)));
        }
        check(&|expect| {
            expect["updates"].as_array_mut().unwrap().push(json!({"containerId": "more"}))
        });
        check(&|expect| *expect = json!({"error": "no", "stage": "merge"}));
        if right["op"] == "create" {
            check(&|expect| expect["spec"]["more"] = json!(0));
            check(&|expect| expect["owners"]["more"] = json!({"simple": {"7": "00-p"}}));
        }
    }
    assert!(wrong > 3000, "{wrong}");
}

fn leaves_after(value: &mut Value, leaf: usize) -> bool {
    leaves(value, Some(leaf)) > leaf
}

/// Counts the leaves that an answer's comparison looks at, and changes one of them.
fn leaves(value: &mut Value, change: Option<usize>) -> usize {
    fn walk(value: &mut Value, change: Option<usize>, seen: &mut usize) {
        match value {
            Value::Object(map) => map.values_mut().for_each(|inner| walk(inner, change, seen)),
            Value::Array(list) => list.iter_mut().for_each(|inner| walk(inner, change, seen)),
            leaf => {
                if change == Some(*seen) {
                    *leaf = match &*leaf {
                        Value::Null => json!({"containerId": "other"}),
                        Value::Bool(b) => json!(!b),
                        Value::Number(n) => json!(n.as_i64().map_or(1, |n| n ^ 1)),
                        other => json!(format!("{}1", other.as_str().unwrap_or_default())),
                    };
                }
                *seen += 1;
            }
        }
    }
    let mut seen = 0;
    walk(value, change, &mut seen);
    seen
}
