//! Checks the error messages of the wrapper.

/// Prefix of each line that the wrapper writes.
const PREFIX: &str = "nri-container-runtime: ";

/// Returns the defect in the stderr of a failed call, if any: apart from warnings of the wrapper,
/// stderr must have a line, and at most one line of the wrapper.
pub fn message_defect(err: &str) -> Option<&'static str> {
    let is_warning = |line: &&str| {
        line.contains("continuing without NRI") || line.contains("has performed the verb")
    };
    let wrapper_errors =
        err.lines().filter(|line| line.starts_with(PREFIX) && !is_warning(line)).count();
    let warnings = err.lines().filter(|line| line.starts_with(PREFIX) && is_warning(line)).count();
    let all_errors = err.lines().filter(|line| !line.trim().is_empty()).count() - warnings;
    match (all_errors, wrapper_errors) {
        (0, _) => Some("stderr has no error message"),
        (_, 0 | 1) => None,
        _ => Some("the wrapper wrote more than one error line"),
    }
}

#[test]
fn stderr_without_an_error_or_with_two_wrapper_errors_is_a_defect() {
    for (err, is_accepted) in [
        ("", false),
        ("nri-container-runtime: continuing without NRI: x\n", false),
        ("nri-container-runtime: no\n", true),
        ("nri-container-runtime: continuing without NRI: x\nnri-container-runtime: no\n", true),
        ("nri-container-runtime: no\nnri-container-runtime: no\n", false),
        ("nri-container-runtime: continuing without NRI: x\ncontainer does not exist\n", true),
        ("several lines\nof the runtime\n", true),
    ] {
        assert_eq!(message_defect(err).is_none(), is_accepted, "{err}");
    }
}
