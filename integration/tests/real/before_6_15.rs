//! Runs tests again as on Linux before 6.15, where `nrid` learns exit codes only if it reads them
//! before the parent reaps the process, and otherwise the outcome of a verb by the runtime's files.

use nri_integration::*;
use std::process::Command;

/// The tests: those of `start`, `delete` and exits.
const TESTS: [&str; 5] =
    ["nrid::followed::", "bundles::hooks", "exits::", "notifications::", "stopped::"];

#[test]
fn outcomes_are_known_without_exit_codes_of_pidfds() {
    if !kernel_reports_exit_codes() {
        return limitation("before 6.15", "the kernel of this machine is that old");
    }
    if !is_root() {
        return skip("before 6.15", "not root");
    }
    let mut command = Command::new(program_dir().join("before-6-15"));
    command.arg(std::env::current_exe().unwrap()).args(["--test-threads", "2"]).args(TESTS);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for test in TESTS {
        assert!(text.contains(test), "no test of {test}: {text}");
    }
}
