//! Compares the time that the wrapper adds to pass-through verbs with the time that the C program
//! adds.

use crate::{
    bench::Bench,
    life::Container,
    node::Node,
    peers::Runtime,
    row::{Row, Target, milliseconds},
    timing::{Call, Measured, called, interleaved},
};
use nri_bench::stats::{added, median};
use std::path::Path;

/// Verbs without an event, with arguments. Signal 0 only checks that the process exists.
const CALLS: [&[&str]; 3] = [&["state", "c"], &["kill", "c", "0"], &["exec", "c", "/bin/true"]];

/// Measures first with a program that exits at once in the place of the runtime, because the time
/// of a real runtime would hide the added time, and then with real runtimes.
pub(crate) fn measure(bench: &Bench) -> Vec<Row> {
    let mut rows = Vec::new();
    let peers = &bench.peers;
    let node = Node::new(bench, &peers.exit);
    node.start();
    for call in CALLS {
        let programs = [&peers.exit, &peers.execv_exit, &node.wrapper()];
        let rounds = bench.options.rounds(2000);
        rows.push(compare(&node, call, programs.map(|p| p.as_path()), rounds, "", true));
    }
    rows.extend(bench.with_each_runtime(|runtime| with_runtime(bench, runtime)));
    rows
}

fn with_runtime(bench: &Bench, runtime: &Runtime) -> Result<Vec<Row>, String> {
    let node = Node::new(bench, &runtime.path);
    node.start();
    let container = Container::new(&node, &runtime.path, "root", "c", &bench.cgroup.containers());
    container.create();
    container.call("start");
    let measure = |call: &&[&str]| {
        let programs = [&runtime.path, &runtime.execv, &node.wrapper()];
        let rounds = bench.options.rounds(200);
        let suffix = format!(" with {}", runtime.name);
        compare(&node, call, programs.map(|p| p.as_path()), rounds, &suffix, false)
    };
    let rows = CALLS.iter().map(measure).collect();
    container.kill();
    container.call("delete");
    Ok(rows)
}

/// Compares the bare runtime, the C program and the wrapper.
fn compare(
    node: &Node,
    call: &[&str],
    programs: [&Path; 3],
    rounds: usize,
    suffix: &str,
    has_target: bool,
) -> Row {
    let series = programs.map(|program| -> Measured<'_, Call> {
        let mut command = node.command(program);
        command.arg("--root").arg(node.path("root")).args(call);
        Box::new(move || called(&mut command))
    });
    let samples = interleaved(rounds, series.into());
    let of = |which: usize, value: fn(&Call) -> f64| -> Vec<f64> {
        samples[which].iter().map(value).collect()
    };
    let more = |which, value| median(&added(&of(which, value), &of(0, value)));
    let text = |which| {
        let (time, cpu) = (more(which, |call| call.time), more(which, |call| call.cpu));
        format!("+{}, CPU +{}", milliseconds(time), milliseconds(cpu))
    };
    Row {
        what: format!("`{}`, time added{suffix}", call[0]),
        peer: format!("C program {}", text(1)),
        here: format!("{} (bare {})", text(2), milliseconds(median(&of(0, |call| call.time)))),
        value: more(2, |call| call.time) / more(1, |call| call.time),
        unit: "",
        target: has_target.then_some(Target::AtMost(0.4)),
        samples: rounds,
    }
}
