//! Runs merge vectors: cases with the results that upstream gave.
//!
//! Start from [`run`]. `tests/cases/vectors/README.md` describes the format of a case. This module
//! only runs cases; it does not generate them.

mod case;
mod compare;
mod difference;
mod merged;
mod refusal;
mod run;

pub use case::{Case, Expected, Malformed, Op, Plugin};
pub use difference::Difference;
pub use merged::Merged;
pub use run::run;
