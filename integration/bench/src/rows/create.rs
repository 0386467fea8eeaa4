//! Compares `CreateContainer` through Go plugins: our adaptation with upstream's, and with the
//! floor: the request as ready bytes over a blocking socket.

use crate::{
    bench::Bench,
    peer::{AdaptationProcess, Creations},
    row::{Row, Target},
    timing::{Measured, interleaved},
};
use nri_bench::stats::{median, percentile};
use std::{path::Path, process::Command};

/// Number of plugins, and the target: the largest quotient of our p50, p99 and CPU time and
/// upstream's.
const PLUGINS: [(usize, f64); 3] = [(1, 0.6), (4, 0.5), (10, 0.4)];

/// Number of creations that each program makes in a round.
const CALLS: usize = 20;

/// Starts upstream's adaptation and ours, each with plugins of its own.
pub(super) fn start(bench: &Bench, plugins: usize, milliseconds: u32) -> [AdaptationProcess; 2] {
    let ours = bench.own_program("nri-bench-adaptation");
    [&bench.peers.adaptation, &ours]
        .map(|program| start_one(bench, program, "serve", plugins, milliseconds))
}

fn start_one(
    bench: &Bench,
    program: &Path,
    mode: &str,
    plugins: usize,
    milliseconds: u32,
) -> AdaptationProcess {
    let peers = &bench.peers;
    let mut command = Command::new(program);
    command.arg(mode);
    AdaptationProcess::start(command, &peers.request, &peers.plugin, plugins, milliseconds)
}

pub(crate) fn measure(bench: &Bench) -> Vec<Row> {
    PLUGINS.iter().flat_map(|(plugins, limit)| with_plugins(bench, *plugins, *limit)).collect()
}

fn with_plugins(bench: &Bench, plugins: usize, limit: f64) -> Vec<Row> {
    let [mut upstream, mut ours] = start(bench, plugins, 0);
    let program = bench.own_program("nri-bench-adaptation");
    let mut floor = start_one(bench, &program, "floor", plugins, 0);
    let series: Vec<Measured<'_, Creations>> = vec![
        Box::new(|| upstream.create(CALLS, 1)),
        Box::new(|| ours.create(CALLS, 1)),
        Box::new(|| floor.create(CALLS, 1)),
    ];
    let samples = interleaved(bench.options.rounds(200), series);
    let s = if plugins == 1 { "" } else { "s" };
    let row = |name: &str, which: usize, target, of: &dyn Fn(&[Creations]) -> f64| {
        let (peer, here) = (of(&samples[0]), of(&samples[which]));
        Row {
            what: format!("CreateContainer through {plugins} Go plugin{s}, {name}"),
            peer: format!("Go adaptation {peer:.0} µs"),
            here: format!("{here:.0} µs"),
            value: here / peer,
            unit: "",
            target,
            samples: CALLS * samples[0].len(),
        }
    };
    let at_most = Some(Target::AtMost(limit));
    let times = |all: &[Creations]| all.iter().flat_map(|c| c.took.clone()).collect::<Vec<_>>();
    let p50 = |all: &[Creations]| median(&times(all));
    let p99 = |all: &[Creations]| percentile(&times(all), 0.99);
    let cpu =
        |all: &[Creations]| all.iter().map(|c| c.cpu).sum::<f64>() / (CALLS * all.len()) as f64;
    vec![
        row("p50", 1, at_most, &p50),
        row("p99", 1, at_most, &p99),
        row("CPU of a call", 1, at_most, &cpu),
        row("p50 of the bare socket", 2, None, &p50),
        row("p99 of the bare socket", 2, None, &p99),
    ]
}
