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
    /// Step in which the crash happened, and the change that it prevented.
    pub(crate) killed: Option<(Step, String)>,
}

impl LifeCycle<'_> {
    /// Whether the wrapper is traced: the victim is the wrapper, or the runtime with its wrapper.
    pub(crate) fn traces_wrapper(&self) -> bool {
        matches!(self.point.victim, Victim::Wrapper | Victim::WrapperAndNrid | Victim::Runtime)
    }

    /// Whether the runtime was killed. It may then have left state that its `delete` cannot remove.
    pub(crate) fn runtime_was_killed(&self) -> bool {
        self.point.victim == Victim::Runtime && self.killed.is_some()
    }

    /// Whether the number of the crash point is odd. The tests imitate one behavior of engines at
    /// odd points and another behavior at even points.
    pub(crate) fn at_odd_point(&self) -> bool {
        self.point.at % 2 == 1
    }
}
