//! Compares the throughput of creations in flight at the same time, through plugins that delay
//! their replies: our adaptation with upstream's, which has one lock for all requests.

use super::create::start;
use crate::{
    bench::Bench,
    peer::Creations,
    row::{Row, Target},
    timing::{Measured, interleaved},
};
use nri_bench::stats::{median, ratios};

/// Number of plugins, number of creations in flight, and the smallest ratio of our throughput to
/// upstream's.
const CASES: [(usize, usize, f64); 2] = [(10, 16, 9.5), (4, 8, 4.0)];

/// Time that a plugin takes for a call, in milliseconds.
const DELAY: u32 = 2;

/// Number of creations that each of the concurrent workers makes in a round, one after another.
/// With few, the rate is that of a pipeline that fills and empties; upstream's adaptation, which
/// calls one plugin at a time, has none to fill.
const CREATIONS: usize = 20;

pub(crate) fn measure(bench: &Bench) -> Vec<Row> {
    CASES.iter().map(|case| with_plugins(bench, *case)).collect()
}

fn with_plugins(bench: &Bench, (plugins, in_flight, limit): (usize, usize, f64)) -> Row {
    let [mut upstream, mut ours] = start(bench, plugins, DELAY);
    let count = CREATIONS * in_flight;
    let series: Vec<Measured<'_, Creations>> = vec![
        Box::new(|| upstream.create(count, in_flight)),
        Box::new(|| ours.create(count, in_flight)),
    ];
    // Fewer rounds than in other groups, because each has many creations with delays.
    let samples = interleaved(if bench.options.is_quick { 2 } else { 4 }, series);
    let rates = |all: &[Creations]| -> Vec<f64> {
        all.iter().map(|c| count as f64 * 1e6 / c.elapsed).collect()
    };
    let (peer, here) = (rates(&samples[0]), rates(&samples[1]));
    Row {
        what: format!(
            "{in_flight} creations in flight, {plugins} plugins of {DELAY} ms, throughput"
        ),
        peer: format!("Go adaptation {:.0} a second", median(&peer)),
        here: format!("{:.0} a second", median(&here)),
        value: median(&ratios(&here, &peer)),
        unit: "",
        target: Some(Target::AtLeast(limit)),
        samples: count * samples[0].len(),
    }
}
