//! Runs merge vectors: cases with the answers that upstream gave.
//!
//! Start from [`run`]. The format of a case is told in `tests/cases/vectors/README.md`; nothing of
//! it is generated here.

mod case;
mod compare;
mod difference;
mod refusal;
mod run;

pub use case::{Case, Expected, Malformed, Op, Plugin};
pub use difference::Difference;
pub use run::run;
