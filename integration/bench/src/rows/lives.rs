//! Compares life cycles of containers, eight at a time, with the wrapper and with the bare runtime:
//! their number per second, and the CPU time added to each.

use super::life::nodes;
use crate::{
    accounting::Accounting,
    bench::Bench,
    life::Container,
    node::Node,
    peers::Runtime,
    row::{Row, Target, milliseconds},
    timing::{Measured, interleaved},
};
use nri_bench::stats::{added, median, ratios};
use std::{path::Path, thread, time::Instant};

/// Number of containers that live at the same time.
const AT_ONCE: usize = 8;

/// Life cycles of each container in a round.
const LIVES: usize = 5;

/// Life cycles per second, and CPU time of a life cycle in microseconds.
type Block = (f64, f64);

pub(crate) fn measure(bench: &Bench) -> Vec<Row> {
    bench.with_each_runtime(|runtime| Ok(with_runtime(bench, runtime)))
}

fn with_runtime(bench: &Bench, runtime: &Runtime) -> Vec<Row> {
    let nodes = nodes(bench, runtime);
    let [none, launched, _, old_none, old_launched] = &nodes;
    let accounting = Accounting::start(&bench.cgroup);
    for node in [none, launched, old_none, old_launched] {
        accounting.enter_with_children(node.nrid_pid());
    }
    let wrapper = none.wrapper();
    let block = |node: &'_ Node, program: &Path, name: &str| {
        let containers: Vec<_> = (0..AT_ONCE)
            .map(|n| {
                let id = format!("{name}{n}");
                Container::new(node, program, "root", &id, &bench.cgroup.containers())
            })
            .collect();
        live_all(&containers, &accounting)
    };
    let series: Vec<Measured<'_, Block>> = vec![
        Box::new(|| block(none, &runtime.path, "bare")),
        Box::new(|| block(none, &wrapper, "none")),
        Box::new(|| block(launched, &wrapper, "launched")),
        Box::new(|| block(old_none, &wrapper, "none-old")),
        Box::new(|| block(old_launched, &wrapper, "launched-old")),
    ];
    // Fewer rounds than in other groups, because each has many life cycles.
    let samples = interleaved(if bench.options.is_quick { 3 } else { 10 }, series);
    let of = |which: usize, value: &dyn Fn(&Block) -> f64| -> Vec<f64> {
        samples[which].iter().map(value).collect()
    };
    let (rate, cpu) = (|block: &Block| block.0, |block: &Block| block.1);
    let count = AT_ONCE * LIVES * samples[0].len();
    let mut rows = Vec::new();
    let here = [
        ("no plugin", false),
        ("one launched plugin", true),
        ("no plugin, way before Linux 6.15", false),
        ("one launched plugin, way before Linux 6.15", false),
    ];
    // The first series is that of the bare runtime.
    for (which, (name, has_target)) in (1..).zip(here) {
        let what = format!("{AT_ONCE} lives of {} at a time, {name}", runtime.name);
        let (bare, here) = (of(0, &rate), of(which, &rate));
        rows.push(Row {
            what: format!("{what}: lives a second"),
            peer: format!("bare {:.1}", median(&bare)),
            here: format!("{:.1}", median(&here)),
            value: median(&ratios(&here, &bare)),
            unit: "",
            target: has_target.then_some(Target::AtLeast(0.92)),
            samples: count,
        });
        let (bare, here) = (of(0, &cpu), of(which, &cpu));
        rows.push(Row {
            what: format!("{what}: CPU added to a life"),
            peer: format!("bare {}", milliseconds(median(&bare))),
            here: milliseconds(median(&here)),
            value: median(&added(&here, &bare)) / 1e3,
            unit: "ms",
            target: has_target.then_some(Target::AtMost(4.0)),
            samples: count,
        });
    }
    rows
}

/// Runs the life cycles of all containers at the same time.
fn live_all(containers: &[Container<'_>], accounting: &Accounting) -> Block {
    let (cpu, start) = (accounting.cpu(), Instant::now());
    thread::scope(|scope| {
        for container in containers {
            scope.spawn(|| (0..LIVES).for_each(|_| _ = container.live()));
        }
    });
    let lives = (containers.len() * LIVES) as f64;
    (lives / start.elapsed().as_secs_f64(), (accounting.cpu() - cpu) / lives)
}
