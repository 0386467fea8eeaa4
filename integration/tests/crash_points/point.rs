//! Crash points, and the choice of the points to test.

use crate::step::Step;
use nri_integration::{Crash, Node};
use std::{collections::BTreeMap, fmt, ops::RangeInclusive};

/// The programs that are killed at a crash point. Only the changes of the program named first are
/// counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Victim {
    Nrid,
    NridAndWrapper,
    Wrapper,
    WrapperAndNrid,
    /// The real runtime with its wrapper, because the runtime gets SIGKILL when the wrapper is
    /// killed.
    Runtime,
    /// An `nrid` that starts and has to detect changes since the previous `nrid` ended.
    Starting,
}

/// Number of points of each victim in the sample: few, because the sample is part of each run of
/// the integration tests.
const SAMPLE: [(Victim, usize); 6] = [
    (Victim::Nrid, 9),
    (Victim::NridAndWrapper, 4),
    (Victim::Wrapper, 6),
    (Victim::WrapperAndNrid, 3),
    (Victim::Runtime, 4),
    (Victim::Starting, 4),
];

/// Victim and, if the wrapper is traced, step: the points of each group are numbered separately.
pub(crate) type Group = (Victim, Option<Step>);

/// A crash point: the victim is killed before the change with this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) victim: Victim,
    /// Verb whose wrapper is traced. `None`: `nrid` is traced during all verbs or, if changes are
    /// only counted, the wrapper of each verb.
    pub(crate) step: Option<Step>,
    /// Number of the change before which the victim is killed, from 1; 0: changes are only counted.
    pub(crate) at: usize,
}

impl Point {
    pub(crate) fn group(&self) -> Group {
        (self.victim, self.step)
    }

    /// Returns the call of `crash-at` that kills the victim at this point.
    pub(crate) fn crash(&self, node: &Node) -> Crash {
        let (nrid, wrapper) = ("nrid", "nri-container-runtime");
        let (program, also) = match self.victim {
            Victim::Nrid | Victim::Starting => (nrid, None),
            Victim::NridAndWrapper => (nrid, Some(wrapper)),
            Victim::Wrapper => (wrapper, None),
            Victim::WrapperAndNrid => (wrapper, Some(nrid)),
            Victim::Runtime => return node.crash_runtime(self.at),
        };
        node.crash(program, self.at, also)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", label(self.group()), self.at)
    }
}

/// Returns the name of a group, as in `NRI_CRASH_POINTS`.
fn label((victim, step): Group) -> String {
    let victim = match victim {
        Victim::Nrid => "nrid",
        Victim::NridAndWrapper => "nrid+wrapper",
        Victim::Wrapper => "wrapper",
        Victim::WrapperAndNrid => "wrapper+nrid",
        Victim::Runtime => "runtime",
        Victim::Starting => "start",
    };
    step.map_or(victim.to_owned(), |step| format!("{victim} {}", step.name()))
}

/// The points to test.
#[derive(Debug)]
pub(crate) enum Choice {
    Sample,
    /// All points whose name begins with these words; all points if the text is empty.
    All(String),
}

impl Choice {
    pub(crate) fn from_environment() -> Self {
        match std::env::var("NRI_CRASH_POINTS") {
            Err(_) => Self::Sample,
            Ok(text) if text == "all" => Self::All(String::new()),
            Ok(text) => Self::All(text),
        }
    }

    /// Whether the result of each point is printed, so that a long test shows its progress.
    pub(crate) fn is_verbose(&self) -> bool {
        matches!(self, Self::All(_))
    }

    /// Returns the points to test. `counts` are the numbers of changes in a life cycle without a
    /// crash.
    pub(crate) fn points(&self, counts: &BTreeMap<Group, usize>) -> Vec<Point> {
        let points = |(group, range): (&Group, RangeInclusive<usize>)| {
            let (victim, step) = *group;
            range.map(move |at| Point { victim, step, at })
        };
        match self {
            Self::Sample => {
                let all: Vec<_> =
                    counts.iter().map(|(group, n)| (group, 1..=*n)).flat_map(points).collect();
                SAMPLE.iter().flat_map(|(victim, n)| spread(&all, *victim, *n)).collect()
            }
            // The number of changes varies between runs, but not as much as from `n` to
            // `n * 2 + 20`. The caller stops at the first number that is not reached.
            Self::All(prefix) => {
                let more = counts.iter().map(|(group, n)| (group, 1..=n * 2 + 20));
                let mut all: Vec<_> = more.flat_map(points).collect();
                let matches =
                    |text: String| text == *prefix || text.starts_with(&format!("{prefix} "));
                all.retain(|point| prefix.is_empty() || matches(point.to_string()));
                all
            }
        }
    }
}

/// Picks `n` points of a victim: the middle of each of `n` equal parts of its points.
fn spread(all: &[Point], victim: Victim, n: usize) -> impl Iterator<Item = Point> {
    let of_victim: Vec<_> = all.iter().copied().filter(|point| point.victim == victim).collect();
    (0..n).map(move |i| of_victim[(2 * i + 1) * of_victim.len() / (2 * n)])
}
