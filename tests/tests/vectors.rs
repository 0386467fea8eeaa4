//! All merge vectors, each required.

use nri_tests::vectors::{Case, run};
use std::path::Path;

#[test]
fn all_vectors_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/vectors");
    let (mut count, mut failures) = (0, Vec::new());
    for file in ["create.jsonl", "update.jsonl", "stop.jsonl"] {
        for line in std::fs::read_to_string(folder.join(file)).unwrap().lines() {
            let case = Case::parse(line).unwrap();
            count += 1;
            if let Err(difference) = run(&case) {
                failures.push(format!("{}: {difference}", case.id));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} fail:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(count, 910);
}
