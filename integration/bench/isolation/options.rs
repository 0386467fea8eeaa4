//! Command line of `nri-bench-isolation`.

use crate::cell::{Named, Neighbour, Service, Way};
use nri_bench::programs::source;
use std::{
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

/// Help of the command line.
const USAGE: &str = "usage: nri-bench-isolation [OPTIONS]
       nri-bench-isolation --report RAW [--out DIR]
  --runs N           runs of each cell (default 20, with --quick 3)
  --seconds N        seconds of each run (default 5, with --quick 2)
  --services LIST    light heavy redis (default all, with --quick heavy)
  --neighbours LIST  compute-light compute-heavy memory-light memory-heavy disk-light disk-heavy
                     (default all, with --quick compute-heavy)
  --ways LIST        alone cpus cpu-shares cpuset-cpus cpuset-parent parent parent-idle
                     cpuset-idle topology-idle topology rules
                     (default all but those with a parent); nothing, floor and floor-again are
                     always measured
  --seed N           seed of the order (default: the time)
  --suite NAME       Debian suite of the engine (default trixie)
  --out DIR          directory of the results (default: integration/bench/results)
  --quick            few runs
  --add              add to the raw figures of earlier runs in the directory of the results
  --report RAW       make the tables and the picture from this file, and measure nothing
  Words of a LIST are separated by spaces or commas.";

/// The command line.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) is_quick: bool,
    /// Whether the raw figures of earlier runs are kept.
    pub(crate) adds: bool,
    pub(crate) runs: u64,
    pub(crate) seconds: u64,
    pub(crate) services: Vec<Service>,
    pub(crate) neighbours: Vec<Neighbour>,
    pub(crate) ways: Vec<Way>,
    pub(crate) seed: u64,
    pub(crate) suite: String,
    pub(crate) out: PathBuf,
    /// File with raw figures to report.
    pub(crate) report: Option<PathBuf>,
}

impl Options {
    /// Parses the command line; ends the process if it is wrong.
    pub(crate) fn parse() -> Self {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let is_quick = arguments.iter().any(|argument| argument == "--quick");
        let mut options = Self::defaults(is_quick);
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().unwrap_or_else(|| fail("an option lacks a value"));
            match argument.as_str() {
                "--quick" => {}
                "--add" => options.adds = true,
                "--runs" => options.runs = number(&value()),
                "--seconds" => options.seconds = number(&value()),
                "--seed" => options.seed = number(&value()),
                "--services" => options.services = list(&value()),
                "--neighbours" => options.neighbours = list(&value()),
                "--ways" => options.ways = list(&value()),
                "--suite" => options.suite = value(),
                "--out" => options.out = value().into(),
                "--report" => options.report = Some(value().into()),
                "--help" => {
                    println!("{USAGE}");
                    std::process::exit(0);
                }
                other => fail(&format!("unknown argument {other}")),
            }
        }
        if options.runs == 0 || options.seconds == 0 {
            fail("--runs and --seconds are at least 1");
        }
        for base in Way::BASES {
            if !options.ways.contains(&base) {
                options.ways.push(base);
            }
        }
        options
    }

    fn defaults(is_quick: bool) -> Self {
        let heavy: Vec<Neighbour> = Neighbour::from_name("compute-heavy").into_iter().collect();
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self {
            is_quick,
            adds: false,
            runs: if is_quick { 3 } else { 20 },
            seconds: if is_quick { 2 } else { 5 },
            services: if is_quick { vec![Service::Heavy] } else { Service::ALL.to_vec() },
            neighbours: if is_quick { heavy } else { Neighbour::ALL.to_vec() },
            ways: Way::ALL.iter().copied().filter(|way| way.is_default()).collect(),
            seed,
            suite: "trixie".to_owned(),
            out: source("results"),
            report: None,
        }
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| fail(&format!("{text} is no number")))
}

fn list<T: Named>(text: &str) -> Vec<T> {
    let names = text.split([' ', ',']).filter(|name| !name.is_empty());
    names.map(|n| T::from_name(n).unwrap_or_else(|| fail(&format!("unknown name {n}")))).collect()
}

fn fail(message: &str) -> ! {
    eprintln!("nri-bench-isolation: {message}\n{USAGE}");
    std::process::exit(2);
}
