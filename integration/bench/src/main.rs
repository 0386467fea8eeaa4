//! `nri-bench`: measures the programs against bare runtimes, a C program that only calls `execv`,
//! and upstream's adaptation in Go. See `integration/bench/README.md`.
//!
//! The programs are called as engines call them. All series of a comparison are measured in turn,
//! one sample of each in a round ([`timing::interleaved`]). The results are medians of the
//! differences or quotients within a round, because the time of a single call says little on a
//! machine that does other work.

mod accounting;
mod bench;
mod life;
mod machine;
mod node;
mod options;
mod peer;
mod peers;
mod report;
mod row;
mod rows;
mod timing;

use accounting::Cgroup;
use bench::Bench;
use options::Options;
use peers::Peers;
use rows::GROUPS;
use std::time::Instant;

fn main() {
    let options = Options::parse(&GROUPS.map(|(name, _)| name));
    // On the file system of the wrapper: pages of a tmpfs are mapped one by one, at other costs.
    let dir = tempfile::Builder::new().prefix("nri-").tempdir_in(&options.programs);
    let dir = dir.expect("the directory of the programs is writable");
    let bench = Bench { options, peers: Peers::build(dir.path()), cgroup: Cgroup::new() };
    let description = machine::describe(&bench);
    for (name, text) in &description {
        println!("{name}: {text}");
    }
    let mut rows = Vec::new();
    for (group, measure) in GROUPS.iter().filter(|(group, _)| bench.options.wants(group)) {
        println!("\n== {group}");
        let start = Instant::now();
        let measured = measure(&bench);
        measured.iter().for_each(|row| println!("{row}"));
        println!("== {group}: {} s", start.elapsed().as_secs());
        rows.extend(measured);
    }
    report::write(&bench.options.out, &description, &rows);
    println!("\nresults: {}", bench.options.out.display());
    let missed = rows.iter().filter(|row| row.is_met() == Some(false)).count();
    let targets = rows.iter().filter(|row| row.target.is_some()).count();
    println!("{} of {targets} targets are met", targets - missed);
}
