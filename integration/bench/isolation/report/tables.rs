//! Computes the tables: for each service beside its neighbours, a row for each way.

use crate::{
    cell::{Named, Neighbour, Pair, Service, Way},
    raw::Sample,
};
use nri_bench::stats::{median, median_interval};
use std::fmt;

/// The goal: p99 at most this many times that of the floor.
pub(crate) const LATENCY: f64 = 1.2;

/// The goal: the neighbours do at least this part of what they do where nothing is done.
const WORK: f64 = 0.95;

/// Least number of runs of which an interval of 95 % can be given.
pub(crate) const RUNS: usize = 6;

/// Median of quotients, and the interval in which it is with a probability of 95 %.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Estimate {
    fn of(quotients: &[f64]) -> Option<Self> {
        if quotients.is_empty() {
            return None;
        }
        let (low, high) = median_interval(quotients);
        Some(Self { value: median(quotients), low, high })
    }

    /// Quotient of the ends of the interval.
    pub(crate) fn width(&self) -> f64 {
        self.high / self.low
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, low, high } = self;
        write!(f, "{} ({} to {})", figure(*value), figure(*low), figure(*high))
    }
}

/// Whether a goal is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Yes,
    No,
    /// The interval contains the limit, or there are too few runs.
    Undecided,
}

/// One way of a table. Latencies are medians of all runs, in milliseconds.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) way: Way,
    pub(crate) runs: usize,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
    /// Runs with requests that were not served.
    pub(crate) unserved: usize,
    /// Quotients within rounds, of the floor.
    pub(crate) p99_ratio: Option<Estimate>,
    pub(crate) p999_ratio: Option<Estimate>,
    /// Work of the neighbours, of that where nothing is done.
    pub(crate) work: Option<Estimate>,
}

impl Row {
    /// Whether both goals are met; `None` for what is no way to keep a service apart.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        if self.way == Way::Alone || self.way.is_pinned() {
            return None;
        }
        let (latency, work) = (self.p99_ratio?, self.work?);
        if self.runs < RUNS {
            return Some(Verdict::Undecided);
        }
        Some(if latency.low > LATENCY || work.high < WORK {
            Verdict::No
        } else if latency.high <= LATENCY && work.low >= WORK {
            Verdict::Yes
        } else {
            Verdict::Undecided
        })
    }
}

/// A service beside neighbours.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) pair: Pair,
    pub(crate) rows: Vec<Row>,
}

impl Table {
    /// Floor against floor.
    pub(crate) fn floor(&self) -> Option<Estimate> {
        self.row(Way::FloorAgain)?.p99_ratio
    }

    pub(crate) fn row(&self, way: Way) -> Option<&Row> {
        self.rows.iter().find(|row| row.way == way)
    }

    /// `redis beside compute-heavy`
    pub(crate) fn title(&self) -> String {
        format!("{} beside {}", self.pair.service.name(), self.pair.neighbour.name())
    }
}

/// Returns the tables of all pairs that were measured.
pub(crate) fn tables(samples: &[Sample]) -> Vec<Table> {
    let mut tables = Vec::new();
    for &service in Service::ALL {
        for &neighbour in Neighbour::ALL {
            let pair = Pair { service, neighbour };
            let of_pair: Vec<&Sample> = samples.iter().filter(|s| s.pair == pair).collect();
            let rows: Vec<Row> = Way::ALL.iter().filter_map(|way| row(*way, &of_pair)).collect();
            if !rows.is_empty() {
                tables.push(Table { pair, rows });
            }
        }
    }
    tables
}

/// Returns the row of a way; `None` if it was not measured.
fn row(way: Way, samples: &[&Sample]) -> Option<Row> {
    let own: Vec<&Sample> = samples.iter().copied().filter(|s| s.way == way).collect();
    if own.is_empty() {
        return None;
    }
    let middle = |of: &dyn Fn(&Sample) -> f64| {
        let all: Vec<f64> = own.iter().map(|sample| of(sample)).collect();
        median(&all)
    };
    // A round without the other sample is that of a run that was interrupted.
    let against = |base: Way, of: &dyn Fn(&Sample) -> Option<f64>| {
        let pairs = own.iter().filter_map(|sample| {
            let base = samples.iter().find(|s| s.way == base && s.round == sample.round)?;
            Some(of(sample)? / of(base)?)
        });
        let quotients: Vec<f64> = pairs.filter(|quotient| quotient.is_finite()).collect();
        if way == base { None } else { Estimate::of(&quotients) }
    };
    Some(Row {
        way,
        runs: own.len(),
        p50: middle(&|sample| sample.p50),
        p99: middle(&|sample| sample.p99),
        p999: middle(&|sample| sample.p999),
        max: middle(&|sample| sample.max),
        unserved: own.iter().filter(|sample| sample.unserved > 0).count(),
        p99_ratio: against(Way::Floor, &|sample| Some(sample.p99)),
        p999_ratio: against(Way::Floor, &|sample| Some(sample.p999)),
        work: against(Way::Nothing, &|sample| sample.work),
    })
}

/// A figure with about three digits that count.
pub(crate) fn figure(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.0995 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}
