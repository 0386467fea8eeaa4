//! Counts with callgrind the instructions of one kind of work in this program.

use std::process::Command;

/// Number of repetitions in the shorter of the two runs of [`count`].
const FEW: usize = 10;

/// Number of repetitions that only the longer run has.
const MORE: usize = 100;

/// Returns the instructions of one repetition of `work`: the difference between two runs, which
/// does not contain the start of the program and the preparation.
///
/// # Panics
/// valgrind is missing or fails.
pub(crate) fn count(work: &str) -> u64 {
    let few = total(work, FEW);
    let many = total(work, FEW + MORE);
    many.saturating_sub(few) / MORE as u64
}

/// Returns the instructions of a run of this program that repeats `work`.
fn total(work: &str, repetitions: usize) -> u64 {
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    command.args(["work", work, &repetitions.to_string()]);
    let output =
        command.output().unwrap_or_else(|e| panic!("start valgrind (apt install valgrind): {e}"));
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find_map(|line| line.split_once("Collected : "));
    match line {
        Some((_, count)) if output.status.success() => count.trim().parse().expect("a number"),
        _ => panic!("{command:?}: {}: {text}", output.status),
    }
}
