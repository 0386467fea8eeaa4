//! Crash points, and which of them are taken.

use crate::step::Step;
use nri_integration::{Crash, Node};
use std::{collections::BTreeMap, fmt, ops::RangeInclusive};

/// What is killed: the first program at its own points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Victim {
    Nrid,
    NridAndWrapper,
    Wrapper,
    WrapperAndNrid,
    /// The real runtime with its wrapper: killing the wrapper kills both.
    Runtime,
    /// An `nrid` that is starting and has something to find out.
    Starting,
}

/// As many points of a sample.
const SAMPLE: [(Victim, usize); 6] = [
    (Victim::Nrid, 9),
    (Victim::NridAndWrapper, 4),
    (Victim::Wrapper, 6),
    (Victim::WrapperAndNrid, 3),
    (Victim::Runtime, 4),
    (Victim::Starting, 4),
];

/// Points that are counted together: those of wrappers for each step.
pub(crate) type Group = (Victim, Option<Step>);

/// A crash point: before which change of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) victim: Victim,
    /// In which call of the wrapper; none: wherever it is, or in each one if nothing is killed.
    pub(crate) step: Option<Step>,
    /// Nothing is killed at 0.
    pub(crate) at: usize,
}

impl Point {
    pub(crate) fn group(&self) -> Group {
        (self.victim, self.step)
    }

    /// What kills: at the changes of one program, which may take another with it.
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

/// Which points are taken.
#[derive(Debug)]
pub(crate) enum Choice {
    Sample,
    /// All, or those that begin so.
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

    /// Whether each point is printed, since there are many.
    pub(crate) fn is_verbose(&self) -> bool {
        matches!(self, Self::All(_))
    }

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
            // Threads are not always as many times interrupted: until it is not reached.
            Self::All(begin) => {
                let more = counts.iter().map(|(group, n)| (group, 1..=n * 2 + 20));
                let mut all: Vec<_> = more.flat_map(points).collect();
                let is = |text: String| text == *begin || text.starts_with(&format!("{begin} "));
                all.retain(|point| begin.is_empty() || is(point.to_string()));
                all
            }
        }
    }
}

/// Some of a victim's points, as far from each other as can be.
fn spread(all: &[Point], victim: Victim, n: usize) -> impl Iterator<Item = Point> {
    let of_it: Vec<_> = all.iter().copied().filter(|point| point.victim == victim).collect();
    (0..n).map(move |i| of_it[(2 * i + 1) * of_it.len() / (2 * n)])
}
