//! Compares the time that the wrapper adds to a life cycle with the time that the C program would
//! add to its four verbs. One container lives at a time.

use crate::{
    bench::Bench,
    life::{Container, Times, VERBS, totals},
    node::Node,
    peers::Runtime,
    row::{Row, Target, milliseconds},
    timing::{Measured, interleaved, timed},
};
use nri_bench::stats::{added, median};

/// Names of the series with a program in front of the runtime, and their targets.
const SERIES: [(&str, Option<f64>); 6] = [
    ("C program", None),
    ("no plugin", Some(2.0)),
    ("one launched plugin", Some(2.5)),
    ("four external Go plugins", Some(4.0)),
    ("no plugin, way before Linux 6.15", None),
    ("one launched plugin, way before Linux 6.15", None),
];

/// Calls of the C program in each round: several, because a call takes little time.
const CALLS: usize = 4;

pub(crate) fn measure(bench: &Bench) -> Vec<Row> {
    bench.with_each_runtime(|runtime| Ok(with_runtime(bench, runtime)))
}

/// Starts nodes with `nrid`: without plugins, with one launched plugin, with four external plugins,
/// and the first two again as on Linux before 6.15.
pub(crate) fn nodes(bench: &Bench, runtime: &Runtime) -> [Node; 5] {
    let [none, launched, mut external, old_none, old_launched] =
        [(); 5].map(|()| Node::new(bench, &runtime.path));
    let adjust = bench.options.programs.join("examples/adjust");
    for node in [&launched, &old_launched] {
        node.launch("10-adjust", &adjust, "[create.resources]\npids = 77\n");
    }
    for node in [&none, &launched, &external] {
        node.start();
    }
    for node in [&old_none, &old_launched] {
        node.start_before_6_15();
    }
    external.connect(&bench.peers.plugin, 4);
    [none, launched, external, old_none, old_launched]
}

fn with_runtime(bench: &Bench, runtime: &Runtime) -> Vec<Row> {
    let nodes = nodes(bench, runtime);
    let [none, launched, external, old_none, old_launched] = &nodes;
    let wrapper = none.wrapper();
    let cgroup = bench.cgroup.containers();
    let container = |node, program, id| Container::new(node, program, "root", id, &cgroup);
    let lives = [
        container(none, &runtime.path, "bare"),
        container(none, &runtime.execv, "c"),
        container(none, &wrapper, "none"),
        container(launched, &wrapper, "launched"),
        container(external, &wrapper, "external"),
        container(old_none, &wrapper, "none-old"),
        container(old_launched, &wrapper, "launched-old"),
    ];
    let rounds = bench.options.rounds(200);
    let mut series: Vec<Measured<'_, Times>> = Vec::new();
    for life in &lives {
        series.push(Box::new(|| life.live()));
    }
    for program in [&bench.peers.exit, &bench.peers.execv_exit] {
        let mut command = none.command(program);
        series.push(Box::new(move || [(); CALLS].map(|()| timed(&mut command))));
    }
    let samples = interleaved(rounds, series);
    // These two series follow those of `lives`.
    let (exit, execv) = (&samples[lives.len()], &samples[lives.len() + 1]);
    // A life cycle has four verbs.
    let floor = 4.0 * median(&added(&execv.concat(), &exit.concat()));
    let bare = &samples[0];
    let row = |(which, (name, limit)): (usize, &(&str, Option<f64>))| {
        let lives = &samples[which + 1];
        let value = median(&added(&totals(lives), &totals(bare)));
        let of_verb = |verb: usize| {
            let times = |lives: &[Times]| lives.iter().map(|times| times[verb]).collect::<Vec<_>>();
            median(&added(&times(lives), &times(bare)))
        };
        let verbs: Vec<_> = (0..VERBS.len())
            .map(|verb| format!("{} {:+.2}", VERBS[verb], of_verb(verb) / 1e3))
            .collect();
        Row {
            what: format!("whole life of {}, time added: {name}", runtime.name),
            peer: format!("4 × C program for a verb: {}", milliseconds(floor)),
            here: format!("+{} ({})", milliseconds(value), verbs.join(", ")),
            value: value / floor,
            unit: "",
            target: limit.map(Target::AtMost),
            samples: rounds,
        }
    };
    SERIES.iter().enumerate().map(row).collect()
}
