//! The rows of the result, a file per group.

pub(crate) mod build;
pub(crate) mod cold;
pub(crate) mod create;
pub(crate) mod in_flight;
pub(crate) mod life;
pub(crate) mod lives;
pub(crate) mod memory;
pub(crate) mod observe;
pub(crate) mod rules;
pub(crate) mod size;
pub(crate) mod verb;

use crate::{bench::Bench, row::Row};

/// Measures the rows of one group.
pub(crate) type Measure = fn(&Bench) -> Vec<Row>;

/// All groups of rows, in the order of the result.
pub(crate) const GROUPS: [(&str, Measure); 11] = [
    ("verb", verb::measure),
    ("life", life::measure),
    ("create", create::measure),
    ("lives", lives::measure),
    ("observe", observe::measure),
    ("rules", rules::measure),
    ("in-flight", in_flight::measure),
    ("size", size::measure),
    ("memory", memory::measure),
    ("cold", cold::measure),
    ("build", build::measure),
];
