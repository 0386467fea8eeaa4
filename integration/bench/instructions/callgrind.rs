//! Counts the instructions of work in this program with callgrind.

use std::process::Command;

/// Repetitions that differ between two runs: start-up and preparation are in both.
const REPEATED: usize = 100;

/// Returns the instructions of one repetition.
///
/// # Panics
/// valgrind is missing or fails.
pub(crate) fn count(work: &str) -> u64 {
    let few = collected(work, 10);
    let many = collected(work, 10 + REPEATED);
    many.saturating_sub(few) / REPEATED as u64
}

fn collected(work: &str, repetitions: usize) -> u64 {
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    command.args(["work", work, &repetitions.to_string()]);
    let output =
        command.output().unwrap_or_else(|e| panic!("valgrind (apt install valgrind): {e}"));
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find_map(|line| line.split_once("Collected : "));
    match line {
        Some((_, count)) if output.status.success() => count.trim().parse().expect("a number"),
        _ => panic!("{command:?}: {}: {text}", output.status),
    }
}
