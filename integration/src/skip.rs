//! Records tests that this machine cannot run, so that none is skipped silently.

use crate::programs::target_dir;
use std::io::Write;

/// Reports that a test, or a part of it, is skipped and why: on stdout, and as a line of
/// `target/skipped.txt`, where skips are counted.
///
/// # Panics
/// With `CI=true`, where every test has to run.
pub fn skip(test: &str, reason: &str) {
    let line = record(test, reason);
    assert!(std::env::var_os("CI").is_none_or(|v| v != "true"), "{line}");
}

/// Reports a skip that no installation on this machine would avoid, for example of a feature that
/// the real runtime lacks. With `CI=true` such a skip is no failure.
pub fn limitation(test: &str, reason: &str) {
    record(test, reason);
}

/// Prints a skip and appends it to `target/skipped.txt`. Returns the line.
fn record(test: &str, reason: &str) -> String {
    let line = format!("SKIPPED {test}: {reason}");
    // Not `println!`, which the test harness captures.
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
