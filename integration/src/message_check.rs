//! Checks the error messages of the wrapper.

/// Prefix of each line that the wrapper writes.
const PREFIX: &str = "nri-container-runtime: ";

/// Returns the defect in the stderr of a failed call: besides warnings it must not be empty, and
/// the wrapper may write at most one line.
pub fn message_defect(err: &str) -> Option<&'static str> {
    let warns =
        |line: &&str| line.contains("continuing without NRI") || line.contains("has done its work");
    let own = err.lines().filter(|line| line.starts_with(PREFIX) && !warns(line)).count();
    let warnings = err.lines().filter(|line| line.starts_with(PREFIX) && warns(line)).count();
    let reported = err.lines().filter(|line| !line.trim().is_empty()).count() - warnings;
    match (reported, own) {
        (0, _) => Some("stderr is empty"),
        (_, 0 | 1) => None,
        _ => Some("the wrapper wrote more than one line"),
    }
}

#[test]
fn a_failure_without_exactly_one_message_is_a_defect() {
    for (err, reported) in [
        ("", false),
        ("nri-container-runtime: continuing without NRI: x\n", false),
        ("nri-container-runtime: no\n", true),
        ("nri-container-runtime: continuing without NRI: x\nnri-container-runtime: no\n", true),
        ("nri-container-runtime: no\nnri-container-runtime: no\n", false),
        ("nri-container-runtime: continuing without NRI: x\ncontainer does not exist\n", true),
        ("several lines\nof the runtime\n", true),
    ] {
        assert_eq!(message_defect(err).is_none(), reported, "{err}");
    }
}
