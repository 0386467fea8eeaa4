//! Compares a `create` through 100 rules of the plugin `rules` with one through a single rule,
//! which changes the container as well: the difference is what the rules themselves take, without
//! the first change of a `config.json`.

use crate::{
    bench::Bench,
    life::{Container, Times},
    node::Node,
    peers::Runtime,
    row::{Row, Target, milliseconds},
    stats::{added, median},
    timing::{Measured, interleaved},
};

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

fn with_runtime(bench: &Bench, runtime: &Runtime) -> Vec<Row> {
    let nodes = [1, RULES].map(|rules| {
        let node = Node::new(bench, &runtime.path);
        node.launch("50-rules", &node.program("nri-rules"), &file(rules));
        node.start();
        node
    });
    let (cgroup, wrapper) = (bench.cgroup.containers(), nodes[0].wrapper());
    let [one, all] = &nodes;
    let lives = [
        Container::new(one, &wrapper, "root", "one", &cgroup),
        Container::new(all, &wrapper, "root", "all", &cgroup),
    ];
    // With 200, the median differed by up to 4 ms from run to run.
    let rounds = bench.options.rounds(600);
    let mut series: Vec<Measured<'_, Times>> = Vec::new();
    for life in &lives {
        series.push(Box::new(|| life.live()));
    }
    let samples = interleaved(rounds, series);
    let creates = |which: usize| samples[which].iter().map(|times| times[0]).collect::<Vec<f64>>();
    let (one, all) = (creates(0), creates(1));
    let value = median(&added(&all, &one));
    vec![Row {
        what: format!("create of {} through {RULES} rules, time added", runtime.name),
        peer: format!("create through one rule: {}", milliseconds(median(&one))),
        here: format!("+{}", milliseconds(value)),
        value: value / 1e3,
        unit: "ms",
        target: Some(Target::AtMost(LIMIT)),
        samples: rounds,
    }]
}
