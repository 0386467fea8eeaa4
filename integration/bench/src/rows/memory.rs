//! Measures the resident memory of `nrid` and the wrapper, and the size of `nrid` on disk.

use crate::{
    bench::Bench,
    life::Container,
    node::Node,
    row::{Row, Target},
};
use nri_integration::Bundle;
use std::{fs, path::Path, process::Stdio, thread, time::Duration};

const MEGABYTE: f64 = 1024.0 * 1024.0;

/// Number of life cycles after which `nrid` has allocated the memory that it keeps.
const LIVES: usize = 50;

/// Time after which `nrid` is idle.
const IDLE: Duration = Duration::from_secs(3);

pub(crate) fn measure(bench: &Bench) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |what: &str, value: f64, limit: f64| {
        rows.push(Row {
            what: what.to_owned(),
            peer: String::new(),
            here: format!("{value:.2} MB"),
            value,
            unit: "MB",
            target: Some(Target::AtMost(limit)),
            samples: 1,
        });
    };
    if let Some(runtime) = bench.peers.runtimes.iter().find(|r| bench.check(r).is_ok()) {
        let node = Node::new(bench, &runtime.path);
        node.start();
        thread::sleep(IDLE);
        row("resident memory of `nrid`, idle after its start", resident(node.nrid_pid()), 8.0);
        let wrapper = node.wrapper();
        let container = Container::new(&node, &wrapper, "root", "c", &bench.cgroup.containers());
        (0..LIVES).for_each(|_| _ = container.live());
        thread::sleep(IDLE);
        let after = format!("resident memory of `nrid`, idle after {LIVES} lives");
        row(&after, resident(node.nrid_pid()), 8.0);
    }
    row("resident memory of the wrapper, peak of `create`", wrapper_peak(bench), 2.0);
    let nrid = fs::metadata(bench.options.programs.join("nrid")).expect("nrid is built");
    row("size of `nrid` on disk", nrid.len() as f64 / MEGABYTE, 8.0);
    rows
}

fn resident(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("nrid runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    let kilobytes = line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number");
    kilobytes * 1024.0 / MEGABYTE
}

/// Returns the peak memory of the wrapper in a `create`. The runtime is a program that only exits,
/// because the peak of a child counts, too.
fn wrapper_peak(bench: &Bench) -> f64 {
    let node = Node::new(bench, &bench.peers.exit);
    node.start();
    let bundle = Bundle::new(&node.path("bundles"), "c").root(&node.path("rootfs")).make();
    let mut command = node.command(&bench.peers.peak);
    command.arg(node.wrapper()).arg("--root").arg(node.path("root"));
    command.args(["create", "--bundle"]).arg::<&Path>(bundle.dir()).arg("c");
    let output = command.stdout(Stdio::piped()).output().expect("the C program can be started");
    let text = String::from_utf8_lossy(&output.stdout);
    let kilobytes = text.trim().parse::<f64>();
    kilobytes.unwrap_or_else(|e| panic!("{command:?}: {e}: {text:?}")) * 1024.0 / MEGABYTE
}
