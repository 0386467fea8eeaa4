//! A check of the wrapper's error messages.

/// Prefix of each line of the wrapper's.
const OURS: &str = "nri-container-runtime: ";

/// Returns what is wrong with the stderr of a call that failed: the wrapper writes one line.
pub fn message_defect(err: &str) -> Option<&'static str> {
    let warns =
        |line: &&str| line.contains("continuing without NRI") || line.contains("has done its work");
    let own = err.lines().filter(|line| line.starts_with(OURS) && !warns(line)).count();
    let warnings = err.lines().filter(|line| line.starts_with(OURS) && warns(line)).count();
    let reported = err.lines().filter(|line| !line.trim().is_empty()).count() - warnings;
    match (reported, own) {
        (0, _) => Some("said nothing"),
        (_, 0 | 1) => None,
        _ => Some("said more than a line"),
    }
}

#[test]
fn failures_without_a_single_message_are_found() {
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
