//! `nri-bench-isolation`: measures the latency of a service beside neighbours in containers of
//! Docker, by what keeps them apart. See `integration/bench/README.md`.
//!
//! A round has all pairs of a service and its neighbours in a random order, and each pair all ways
//! ([`cell::Way`]) in a random order, one after the other: what is compared is the quotient of two
//! ways within a round, which are measured within a few minutes. Raw figures go to a file, from
//! which [`report`] makes the tables and the picture; `--report` makes them again.

mod cell;
mod cpus;
mod options;
mod random;
mod raw;
mod redis;
mod report;
mod run;
mod testbed;
mod ways;

use cell::{Named, Pair};
use options::Options;
use random::Random;
use raw::Raw;
use serde_json::json;
use std::{fs, path::Path, time::Instant};
use testbed::Testbed;

fn main() {
    let options = Options::parse();
    let out = &options.out;
    fs::create_dir_all(out).unwrap_or_else(|e| panic!("{}: {e}", out.display()));
    let raw = match &options.report {
        Some(raw) => raw.clone(),
        None => {
            let raw = out.join("isolation.jsonl");
            measure(&options, &raw);
            raw
        }
    };
    report::write(out, &raw);
    println!("results: {}", out.display());
}

/// Measures all cells, and writes their figures to the file `raw`.
fn measure(options: &Options, raw: &Path) {
    let testbed = Testbed::start(options);
    let description = testbed.describe(if options.is_quick { "short" } else { "full" });
    for (name, text) in &description {
        println!("{name}: {text}");
    }
    println!("seed: {}", options.seed);
    let run = json!({
        "machine": nri_bench::machine::json(&description),
        "seed": options.seed, "runs": options.runs, "seconds": options.seconds,
        "services": names(&options.services), "neighbours": names(&options.neighbours),
        "ways": names(&options.ways),
    });
    let rounds_before = match options.adds && raw.exists() {
        true => raw::read(raw).1.iter().map(|sample| sample.round).max().unwrap_or(0),
        false => 0,
    };
    let mut raw = Raw::open(raw, options.adds, &run);
    let pairs: Vec<Pair> = options
        .services
        .iter()
        .flat_map(|&service| {
            options.neighbours.iter().map(move |&n| Pair { service, neighbour: n })
        })
        .collect();
    let mut random = Random(options.seed);
    let (begin, mut done) = (Instant::now(), 0);
    let all = options.runs * (pairs.len() * options.ways.len()) as u64;
    for round in 1..=options.runs {
        for pair in random.shuffled(&pairs) {
            for way in random.shuffled(&options.ways) {
                let mut sample = run::measure(&testbed, pair, way, options.seconds);
                sample["round"] = json!(rounds_before + round);
                raw.add(&sample);
                done += 1;
                let left = begin.elapsed() / done * (all as u32 - done);
                println!(
                    "{done} of {all}, {} min left: {} beside {}, {}: p99 {:.3} ms",
                    left.as_secs() / 60,
                    pair.service.name(),
                    pair.neighbour.name(),
                    way.name(),
                    sample["p99"].as_f64().unwrap_or_default()
                );
            }
        }
    }
}

fn names<T: Named>(values: &[T]) -> Vec<String> {
    values.iter().map(|value| value.name()).collect()
}
