//! The life cycle of a container at a moment.

use crate::{
    host::Host,
    point::{Point, Victim},
    step::Step,
};
use nri_integration::{Bundle, Crash};

/// The state of a life cycle in which something may be killed.
pub(crate) struct LifeCycle<'a> {
    pub(crate) host: &'a mut Host,
    pub(crate) id: String,
    pub(crate) bundle: Bundle,
    pub(crate) point: &'a Point,
    pub(crate) crash: Option<Crash>,
    /// Where something was killed, and before which change.
    pub(crate) killed: Option<(Step, String)>,
}

impl LifeCycle<'_> {
    /// Whether the wrapper is what is killed, or is killed with the runtime.
    pub(crate) fn is_wrappers(&self) -> bool {
        matches!(self.point.victim, Victim::Wrapper | Victim::WrapperAndNrid | Victim::Runtime)
    }

    /// Whether the runtime may have left what it cannot remove itself.
    pub(crate) fn is_torn(&self) -> bool {
        self.point.victim == Victim::Runtime && self.killed.is_some()
    }

    /// For what engines do in one way or another.
    pub(crate) fn odd(&self) -> bool {
        self.point.at % 2 == 1
    }
}
