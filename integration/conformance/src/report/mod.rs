//! Results of cases: what a run writes as JSON, and what the matrix is made from.

mod document;
mod matrix;
mod notes;
mod results;

pub use document::document;
pub use matrix::table;
pub use notes::{Note, Notes, Verdict};
pub use results::{Counts, Outcome, Results, Status};
