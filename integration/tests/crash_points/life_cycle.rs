//! State of the life cycle of a container.

use crate::{
    host::Host,
    point::{Point, Victim},
    step::Step,
};
use nri_integration::{Bundle, Crash};

/// A life cycle with a crash point.
pub(crate) struct LifeCycle<'a> {
    pub(crate) host: &'a mut Host,
    pub(crate) id: String,
    pub(crate) bundle: Bundle,
    pub(crate) point: &'a Point,
    pub(crate) crash: Option<Crash>,
    /// Step of the crash, and the change that it prevented.
    pub(crate) killed: Option<(Step, String)>,
}

impl LifeCycle<'_> {
    /// Whether the crash point is one of the wrapper, or of the runtime, with which the wrapper is
    /// killed.
    pub(crate) fn kills_wrapper(&self) -> bool {
        matches!(self.point.victim, Victim::Wrapper | Victim::WrapperAndNrid | Victim::Runtime)
    }

    /// Whether the runtime was killed, so that it may have left state that it cannot remove itself.
    pub(crate) fn runtime_was_killed(&self) -> bool {
        self.point.victim == Victim::Runtime && self.killed.is_some()
    }

    /// Whether the number of the crash point is odd, to alternate between two behaviours of
    /// engines.
    pub(crate) fn at_odd_point(&self) -> bool {
        self.point.at % 2 == 1
    }
}
