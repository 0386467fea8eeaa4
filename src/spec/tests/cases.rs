//! Runs test cases: `cases/GROUP/NAME.json` has an OCI config (`spec`), an adjustment in protojson
//! (`adjust`), and the expected OCI config (`expect`) or error (`error`).
//!
//! `NRI_REGENERATE=1 cargo test -p nri-spec` rewrites the results; review the changes.

#![allow(clippy::unwrap_used, clippy::panic)] // test helpers may panic

mod common;

use common::{apply_on, assert_valid, files, read_json, regenerate, write_json};
use serde_json::{Value, json};

fn check(case: &Value) -> Result<Value, String> {
    let spec = &case["spec"];
    let (after, changed) = apply_on(&case["host"], spec, &case["adjust"])?;
    // A process object created by the adjustment lacks the fields that only the engine sets.
    if case["incomplete"] != json!(true) {
        assert_valid(&after);
    }
    assert_eq!(changed, text(spec) != text(&after), "`Applied::changed` is wrong");
    Ok(after)
}

#[test]
fn each_case_has_the_expected_result() {
    let mut failures = Vec::new();
    for path in files("cases", ".json") {
        let mut case = read_json(&path);
        let outcome = match check(&case) {
            Ok(spec) => ("expect", spec),
            Err(error) => ("error", json!(error)),
        };
        if regenerate() {
            let fields = case.as_object_mut().unwrap();
            fields.shift_remove("expect");
            fields.shift_remove("error");
            fields.insert(outcome.0.into(), outcome.1);
            write_json(&path, &case);
        } else if text(&case[outcome.0]) != text(&outcome.1) {
            failures.push(format!(
                "{}: {}\n  expected {}",
                path.display(),
                outcome.1,
                case[outcome.0]
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Text of a result, by which results are compared: the order of keys and the text of numbers
/// count.
fn text(value: &Value) -> String {
    value.to_string()
}
