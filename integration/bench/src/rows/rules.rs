//! Compares a `create` through 100 rules of the plugin `rules`, ten of which change the container,
//! with one through the plugin without rules.

use crate::{
    bench::Bench,
    life::{Container, Times},
    node::Node,
    peers::Runtime,
    row::{Row, Target, milliseconds},
    timing::{Measured, interleaved},
};
use nri_bench::stats::{added, median, median_error};
use nri_integration::wait_until;
use std::{thread, time::Duration};

/// Number of rules.
const RULES: usize = 100;

/// Time that they may add, in milliseconds.
const LIMIT: f64 = 1.0;

/// Conditions as people write them; none of them holds for the container.
const CONDITIONS: [&str; 6] = [
    r#"image.startsWith("registry.example.com/team-a/")"#,
    r#"mounts.exists(m, m.source.matches("^/(etc|boot|root)(/.*)?$"))"#,
    r#""example.com/team" in labels && labels["example.com/team"] == "shop""#,
    r#"env.exists(name, name.startsWith("JAVA_"))"#,
    r#"has(requested.memory) && has(requested.memory.limit) && requested.memory.limit > 100"#,
    r#"command.exists(c, c.matches("^/usr/bin/python3?$")) && user.uid != 0"#,
];

pub(crate) fn measure(bench: &Bench) -> Vec<Row> {
    bench.with_each_runtime(|runtime| Ok(with_runtime(bench, runtime)))
}

/// Returns a file with rules, of which every tenth applies and sets a variable.
fn file(rules: usize) -> String {
    let rule = |n: usize| {
        let condition =
            if n.is_multiple_of(10) { "true" } else { CONDITIONS[n % CONDITIONS.len()] };
        format!("  - name: r{n}\n    match: '{condition}'\n    add: {{env: {{R{n}: '{n}'}}}}\n")
    };
    let rules: String = (0..rules).map(rule).collect();
    if rules.is_empty() { "rules: []\n".to_owned() } else { format!("rules:\n{rules}") }
}

/// Runs a life cycle after a pause, and waits until `nrid` has removed the records: what it does
/// after a `delete` would slow down the next `create`.
///
/// Waits of the runtime in the kernel end at ticks of the clock. If all creations began at the same
/// time after a tick, a little more work before such a wait would add a whole tick, or nothing.
fn quiet_life(life: &Container<'_>, round: usize) -> Times {
    // Whole ticks at 100, 250 and 1000 Hz. Multiples of the golden ratio fill them evenly.
    let longest = Duration::from_millis(20);
    thread::sleep(longest.mul_f64((round as f64 * 0.618).fract()));
    let times = life.live();
    wait_until("the removal of a container", || (!life.has_record()).then_some(()));
    times
}

fn with_runtime(bench: &Bench, runtime: &Runtime) -> Vec<Row> {
    let nodes = [0, RULES].map(|rules| {
        let node = Node::new(bench, &runtime.path);
        node.launch("50-rules", &node.program("nri-rules"), &file(rules));
        node.start();
        node
    });
    let (cgroup, wrapper) = (bench.cgroup.containers(), nodes[0].wrapper());
    let [none, all] = &nodes;
    let lives = [
        Container::new(none, &wrapper, "root", "none", &cgroup),
        Container::new(all, &wrapper, "root", "all", &cgroup),
    ];
    let rounds = bench.options.rounds(2000);
    let mut series: Vec<Measured<'_, Times>> = Vec::new();
    for life in &lives {
        let mut round = 0;
        series.push(Box::new(move || {
            round += 1;
            quiet_life(life, round)
        }));
    }
    let samples = interleaved(rounds, series);
    let creates = |which: usize| samples[which].iter().map(|times| times[0]).collect::<Vec<f64>>();
    let (none, all) = (creates(0), creates(1));
    let differences = added(&all, &none);
    let value = median(&differences);
    vec![Row {
        what: format!("create of {} through {RULES} rules, time added", runtime.name),
        peer: format!("create without rules: {}", milliseconds(median(&none))),
        here: format!("{:+.2} ± {}", value / 1e3, milliseconds(median_error(&differences))),
        value: value / 1e3,
        unit: "ms",
        target: Some(Target::AtMost(LIMIT)),
        samples: rounds,
    }]
}
