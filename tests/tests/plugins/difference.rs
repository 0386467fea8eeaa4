//! A difference of a plugin from upstream's.

use crate::{pods::Case, replies::Outcome};

/// A difference on purpose.
pub(crate) struct Difference {
    /// What differs, and why.
    pub(crate) what: &'static str,
    /// Whether the replies to a pod differ in this way: upstream's and ours.
    pub(crate) applies: fn(&Case, &Outcome, &Outcome) -> bool,
}
