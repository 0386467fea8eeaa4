//! The difference between the expected and the actual result of a case.

/// Difference between the expected and the actual result of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Path of the value that differs, as in `spec.process.env[2]`.
    pub path: String,
    /// Expected value.
    pub expected: String,
    /// Actual value.
    pub got: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: expected {}, got {}", self.path, self.expected, self.got)
    }
}
