//! The exit codes: one table for the program, its help, its man pages and its documentation.

use std::{fmt::Write, process::ExitCode};

/// The command failed; the error is on standard error.
pub(crate) const FAILURE: u8 = 1;
/// No nrid is running.
pub(crate) const NOT_RUNNING: u8 = 3;
/// A check found a problem, or the command was refused.
pub(crate) const PROBLEM: u8 = 4;
/// Only root can reach the nrid, or change the files.
pub(crate) const NEEDS_ROOT: u8 = 5;

/// All exit codes, with their meanings. clap exits with 2.
pub(crate) const EXIT_CODES: [(u8, &str); 6] = [
    (0, "done; a check found no problem"),
    (FAILURE, "failed; the error is on standard error"),
    (2, "wrong command line"),
    (NOT_RUNNING, "nrid is not running"),
    (PROBLEM, "a check found a problem, or the command was refused"),
    (NEEDS_ROOT, "needs root"),
];

/// Returns the exit code of a check.
pub(crate) fn problem_unless(is_fine: bool) -> ExitCode {
    if is_fine { ExitCode::SUCCESS } else { ExitCode::from(PROBLEM) }
}

/// Returns the exit code of a command that shows an `nrid` which may not run.
pub(crate) fn not_running_unless(is_running: bool) -> ExitCode {
    if is_running { ExitCode::SUCCESS } else { ExitCode::from(NOT_RUNNING) }
}

/// Returns the table for the help.
pub(crate) fn help() -> String {
    EXIT_CODES.iter().fold("Exit codes:".to_owned(), |mut text, (code, meaning)| {
        let _ = write!(text, "\n  {code}  {meaning}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, path::Path};

    #[test]
    fn the_documentation_has_the_same_table() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/nrictl.md");
        let document = fs::read_to_string(file).unwrap();
        let section = document.split("\n## ").find(|s| s.starts_with("Exit codes")).unwrap();
        let row = |line: &str| {
            let (code, meaning) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
            Some((code.parse::<u8>().ok()?, meaning.to_owned()))
        };
        let rows: Vec<(u8, String)> = section.lines().filter_map(row).collect();
        assert_eq!(rows, EXIT_CODES.map(|(code, meaning)| (code, meaning.to_owned())));
    }
}
