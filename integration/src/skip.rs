//! Skipping what a machine cannot do: never silently.

use crate::programs::target_dir;
use std::io::Write;

/// Says that a test, or a part of it, is skipped, and why: on stdout, and as a line of
/// `target/skipped.txt`, where they are counted.
///
/// # Panics
/// `CI=true`: a machine that tests for all must be able to.
pub fn skip(test: &str, reason: &str) {
    let line = note(test, reason);
    assert!(std::env::var_os("CI").is_none_or(|v| v != "true"), "{line}");
}

/// The same for what no installation would change: a real runtime that cannot do it itself.
pub fn limitation(test: &str, reason: &str) {
    note(test, reason);
}

fn note(test: &str, reason: &str) -> String {
    let line = format!("SKIPPED {test}: {reason}");
    // Not `println!`, which the test harness would keep to itself.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
    let file = target_dir().join("skipped.txt");
    let written = std::fs::File::options()
        .append(true)
        .create(true)
        .open(&file)
        .and_then(|mut f| f.write_all(format!("{line}\n").as_bytes()));
    if let Err(e) = written {
        panic!("{}: {e}", file.display());
    }
    line
}
