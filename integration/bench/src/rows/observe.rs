//! Compares what audit log and metrics add to a creation with what everything else adds to it.

use crate::{
    accounting::Accounting,
    bench::Bench,
    life::Container,
    node::Node,
    peers::Runtime,
    row::{Row, Target, milliseconds},
    timing::{Measured, interleaved},
};
use nri_bench::stats::{added, median};
use std::{thread, time::Duration};

/// Number of lives in a sample.
const LIVES: usize = 5;

/// Time after which the audit log of a sample is written, so that its CPU time counts.
const WRITTEN: Duration = Duration::from_millis(40);

/// Largest share of the added time, and of the added CPU time.
const LIMIT: f64 = 0.05;

/// Time of a `create`, and CPU time of a life, in microseconds.
type Costs = (f64, f64);

pub(crate) fn measure(bench: &Bench) -> Vec<Row> {
    bench.with_each_runtime(|runtime| Ok(with_runtime(bench, runtime)))
}

fn with_runtime(bench: &Bench, runtime: &Runtime) -> Vec<Row> {
    let [off, on] = [(); 2].map(|()| Node::new(bench, &runtime.path));
    off.configure("[audit]\nenable = false\n");
    let socket = format!("unix:{}", on.path("metrics.sock").display());
    on.configure(&format!("[metrics]\nlisten = {socket:?}\n"));
    let accounting = Accounting::start(&bench.cgroup);
    for node in [&off, &on] {
        let adjust = bench.options.programs.join("examples/adjust");
        node.launch("10-adjust", &adjust, "[create.resources]\npids = 77\n");
        node.start();
        accounting.enter_with_children(node.nrid_pid());
    }
    let (cgroup, wrapper) = (bench.cgroup.containers(), off.wrapper());
    let lives = [
        Container::new(&off, &runtime.path, "root", "bare", &cgroup),
        Container::new(&off, &wrapper, "root", "off", &cgroup),
        Container::new(&on, &wrapper, "root", "on", &cgroup),
    ];
    let mut series: Vec<Measured<'_, Costs>> = Vec::new();
    for life in &lives {
        series.push(Box::new(|| sample(life, &accounting)));
    }
    let samples = interleaved(bench.options.rounds(100), series);
    let row = |what: &str, cost: &dyn Fn(&Costs) -> f64| {
        let of = |which: usize| samples[which].iter().map(cost).collect::<Vec<f64>>();
        let (bare, off, on) = (of(0), of(1), of(2));
        let (all, observed) = (median(&added(&off, &bare)), median(&added(&on, &off)));
        Row {
            what: format!("{what} of {}: share of audit log and metrics", runtime.name),
            peer: format!("added without them {}", milliseconds(all)),
            here: format!("{} more", milliseconds(observed)),
            value: observed / all,
            unit: "",
            target: Some(Target::AtMost(LIMIT)),
            samples: samples[0].len() * LIVES,
        }
    };
    vec![row("time added to a create", &|costs| costs.0), row("CPU added to a life", &|c| c.1)]
}

/// Runs lives one after the other; returns their costs per life.
fn sample(container: &Container<'_>, accounting: &Accounting) -> Costs {
    let before = accounting.cpu();
    let creates: Vec<f64> = (0..LIVES).map(|_| container.live()[0]).collect();
    thread::sleep(WRITTEN);
    (median(&creates), (accounting.cpu() - before) / LIVES as f64)
}
