//! The difference between a case's answer and the result.

/// How a case differs from its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Where, as in `spec.process.env[2]`.
    pub path: String,
    /// The answer.
    pub expected: String,
    /// What came out.
    pub got: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: expected {}, got {}", self.path, self.expected, self.got)
    }
}
