//! `nri-bench-instructions [--renew]`: counts the instructions of a pass-through verb, of a merge
//! and of a change of `config.json`, and the blocks of code that a pass-through verb loads, and
//! fails if a count is more than 5 % above the recorded one. Unlike times, counts are the same on a
//! busy machine.
//!
//! `nri-bench-instructions work NAME COUNT` is what callgrind runs.

mod callgrind;
mod counts;
mod pass_through;

use counts::Counts;
use nri_bench::{ConfigJson, Merge};
use pass_through::Executed;
use std::{hint::black_box, path::Path, process::ExitCode};

/// Number of plugins whose replies are merged or applied to `config.json`.
const PLUGINS: usize = 4;

/// Quotient of a new count and the recorded one above which the check fails.
const LIMIT: f64 = 1.05;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => check(),
        ["--renew"] => {
            Counts(measure()).write(&counts_file());
            ExitCode::SUCCESS
        }
        ["work", name, count] => {
            work(name, count.parse().expect("a number"));
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("usage: nri-bench-instructions [--renew]");
            ExitCode::from(2)
        }
    }
}

/// File with the recorded counts.
fn counts_file() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions/counts.txt")
}

/// Performs the work `name` as often as `count` says.
fn work(name: &str, count: usize) {
    match name {
        "merge" => {
            let merge = Merge::new(PLUGINS);
            (0..count).for_each(|_| drop(black_box(merge.run())));
        }
        "config.json" => {
            let config = ConfigJson::new(PLUGINS);
            (0..count).for_each(|_| drop(black_box(config.run())));
        }
        other => panic!("unknown work {other}"),
    }
}

fn measure() -> Vec<(String, u64)> {
    let Executed { instructions, blocks } = pass_through::count();
    let mut all =
        vec![("pass-through".to_owned(), instructions), ("pass-through-blocks".to_owned(), blocks)];
    for name in ["merge", "config.json"] {
        all.push((name.to_owned(), callgrind::count(name)));
    }
    for (name, count) in &all {
        println!("{name}: {count}");
        assert_ne!(*count, 0, "{name}: nothing was counted");
    }
    all
}

fn check() -> ExitCode {
    let recorded = Counts::read(&counts_file());
    let mut is_good = true;
    for (name, count) in measure() {
        let before = recorded.of(&name);
        let growth = count as f64 / before as f64;
        println!("{name}: {:+.2} % against {before}", (growth - 1.0) * 100.0);
        if growth > LIMIT {
            is_good = false;
            eprintln!("{name}: {count}, more than 5 % above the recorded {before}");
        }
    }
    if is_good {
        return ExitCode::SUCCESS;
    }
    eprintln!("to accept the growth: make instructions RENEW=1, with the reason in the commit");
    ExitCode::FAILURE
}
