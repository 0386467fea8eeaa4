//! Runs merge vectors: cases with the answers that upstream gave.
//!
//! Start from [`run`]. The format of a case is told in `tests/cases/vectors/README.md`; nothing of
//! it is generated here.

mod case;
mod compare;
mod refusal;
mod run;

pub use case::{Case, Expected, Malformed, Op, Plugin};
pub use run::run;

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
