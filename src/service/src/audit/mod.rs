//! The audit log: one JSON line for each change that plugins made, for each refusal, and for the
//! life of containers and plugins. Start from [`Audit`].
//!
//! Whoever commits a change hands a line to a queue, which never blocks. A thread masks the values
//! of environment variables, and writes. `nrictl events` and `nrictl explain` read the file.

mod log;
mod mask;
mod subject;

pub use log::{Audit, ChangesByPlugin};
pub use subject::{line_of, line_of_key};
