//! Compares the first `create`, which starts `nrid`, with a `create` while `nrid` runs.

use crate::{
    bench::Bench,
    life::Container,
    node::Node,
    row::{Row, Target, milliseconds},
    timing::{Measured, interleaved},
};
use nri_bench::stats::{added, median};

pub(crate) fn measure(bench: &Bench) -> Vec<Row> {
    let Some(runtime) = bench.peers.runtimes.iter().find(|r| bench.check(r).is_ok()) else {
        eprintln!("cold: skipped: no runtime can run containers here");
        return Vec::new();
    };
    let node = Node::new(bench, &runtime.path);
    node.start();
    let wrapper = node.wrapper();
    let container = Container::new(&node, &wrapper, "root", "c", &bench.cgroup.containers());
    let finish_life = || {
        container.call("start");
        container.kill();
        container.call("delete");
    };
    let series: Vec<Measured<'_, f64>> = vec![
        Box::new(|| {
            node.stop();
            let took = container.create();
            finish_life();
            took
        }),
        Box::new(|| {
            let took = container.create();
            finish_life();
            took
        }),
    ];
    let samples = interleaved(bench.options.rounds(200), series);
    let more = median(&added(&samples[0], &samples[1]));
    vec![Row {
        what: format!("first `create` with {}, which starts `nrid`, no plugins", runtime.name),
        peer: format!("`nrid` runs: {}", milliseconds(median(&samples[1]))),
        here: milliseconds(median(&samples[0])),
        value: more / 1e3,
        unit: "ms more",
        target: Some(Target::AtMost(20.0)),
        samples: samples[0].len(),
    }]
}
