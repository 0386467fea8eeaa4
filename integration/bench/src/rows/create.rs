//! Compares `CreateContainer` through Go plugins: our adaptation with upstream's.

use crate::{
    bench::Bench,
    peer::{AdaptationProcess, Creations},
    row::{Row, Target},
    stats::{median, percentile},
    timing::{Measured, interleaved},
};
use std::process::Command;

/// Number of plugins, and the target: the largest quotient of our p50, p99 and CPU time and
/// upstream's.
const PLUGINS: [(usize, f64); 3] = [(1, 0.6), (4, 0.5), (10, 0.4)];

/// Number of creations that each program makes in a round.
const CALLS: usize = 20;

/// Starts upstream's adaptation and ours, each with plugins of its own.
pub(super) fn start(bench: &Bench, plugins: usize, milliseconds: u32) -> [AdaptationProcess; 2] {
    let peers = &bench.peers;
    let mut upstream = Command::new(&peers.adaptation);
    upstream.arg("serve");
    let ours = Command::new(bench.own_program("nri-bench-adaptation"));
    [upstream, ours].map(|command| {
        AdaptationProcess::start(command, &peers.request, &peers.plugin, plugins, milliseconds)
    })
}

pub(crate) fn measure(bench: &Bench) -> Vec<Row> {
    PLUGINS.iter().flat_map(|(plugins, limit)| with_plugins(bench, *plugins, *limit)).collect()
}

fn with_plugins(bench: &Bench, plugins: usize, limit: f64) -> Vec<Row> {
    let [mut upstream, mut ours] = start(bench, plugins, 0);
    let series: Vec<Measured<'_, Creations>> =
        vec![Box::new(|| upstream.create(CALLS, 1)), Box::new(|| ours.create(CALLS, 1))];
    let samples = interleaved(bench.options.rounds(200), series);
    let row = |name: &str, of: &dyn Fn(&[Creations]) -> f64| {
        let (peer, here) = (of(&samples[0]), of(&samples[1]));
        let s = if plugins == 1 { "" } else { "s" };
        Row {
            what: format!("CreateContainer through {plugins} Go plugin{s}, {name}"),
            peer: format!("Go adaptation {peer:.0} µs"),
            here: format!("{here:.0} µs"),
            value: here / peer,
            unit: "",
            target: Some(Target::AtMost(limit)),
            samples: CALLS * samples[0].len(),
        }
    };
    let times = |all: &[Creations]| all.iter().flat_map(|c| c.took.clone()).collect::<Vec<_>>();
    vec![
        row("p50", &|all| median(&times(all))),
        row("p99", &|all| percentile(&times(all), 0.99)),
        row("CPU of a call", &|all| {
            all.iter().map(|c| c.cpu).sum::<f64>() / (CALLS * all.len()) as f64
        }),
    ]
}
