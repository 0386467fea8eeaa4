//! Whether a failure of the wrapper was told as it should be.

/// What each line of the wrapper's own begins with.
const OURS: &str = "nri-container-runtime: ";

/// Why a failure was not told as it should be, by what the call said on stderr: one line, if it is
/// the wrapper's own.
pub fn message_defect(err: &str) -> Option<&'static str> {
    let warns =
        |line: &&str| line.contains("continuing without NRI") || line.contains("has done its work");
    let own = err.lines().filter(|line| line.starts_with(OURS) && !warns(line)).count();
    let warnings = err.lines().filter(|line| line.starts_with(OURS) && warns(line)).count();
    let told = err.lines().filter(|line| !line.trim().is_empty()).count() - warnings;
    match (told, own) {
        (0, _) => Some("said nothing"),
        (_, 0 | 1) => None,
        _ => Some("said more than a line"),
    }
}

#[test]
fn failures_without_a_single_message_are_found() {
    for (err, told) in [
        ("", false),
        ("nri-container-runtime: continuing without NRI: x\n", false),
        ("nri-container-runtime: no\n", true),
        ("nri-container-runtime: continuing without NRI: x\nnri-container-runtime: no\n", true),
        ("nri-container-runtime: no\nnri-container-runtime: no\n", false),
        ("nri-container-runtime: continuing without NRI: x\ncontainer does not exist\n", true),
        ("several lines\nof the runtime\n", true),
    ] {
        assert_eq!(message_defect(err).is_none(), told, "{err}");
    }
}
