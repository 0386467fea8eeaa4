//! The raw figures: a file with a line of JSON for each run of the program, followed by one for
//! each of its samples.

use crate::cell::{Named, Pair, Way};
use serde_json::Value;
use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};

/// A file of raw figures. Each line is written at once, so that the lines of a run that is
/// interrupted are kept.
pub(crate) struct Raw(File);

impl Raw {
    /// Opens the file, which keeps what it has if `keeps`, and adds the description of the run.
    pub(crate) fn open(path: &Path, keeps: bool, run: &Value) -> Self {
        let mut options = File::options();
        options.create(true).write(true).append(keeps).truncate(!keeps);
        let file = options.open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut raw = Self(file);
        raw.add(run);
        raw
    }

    pub(crate) fn add(&mut self, value: &Value) {
        writeln!(self.0, "{value}").expect("the directory of the results is writable");
    }
}

/// Figures of one run of a cell. Latencies are in milliseconds.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) round: u64,
    pub(crate) pair: Pair,
    pub(crate) way: Way,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
    /// Requests that were not served in time; their latencies are too small.
    pub(crate) unserved: u64,
    /// Work of the neighbours in a second; `None` without neighbours.
    pub(crate) work: Option<f64>,
}

impl Sample {
    fn read(line: &Value) -> Option<Self> {
        let name = |key: &str| line[key].as_str();
        let time = |key: &str| line[key].as_f64();
        Some(Self {
            round: line["round"].as_u64()?,
            pair: Pair {
                service: Named::from_name(name("service")?)?,
                neighbour: Named::from_name(name("neighbour")?)?,
            },
            way: Named::from_name(name("way")?)?,
            p50: time("p50")?,
            p99: time("p99")?,
            p999: time("p999")?,
            max: time("max")?,
            unserved: line["unserved"].as_u64().unwrap_or(0),
            work: time("work"),
        })
    }
}

/// Reads a file: the descriptions of the runs and the samples.
///
/// # Panics
/// A line is none that [`Raw`] writes.
pub(crate) fn read(path: &Path) -> (Vec<Value>, Vec<Sample>) {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let (mut runs, mut samples) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        if value.get("machine").is_some() {
            runs.push(value);
        } else {
            samples.push(Sample::read(&value).unwrap_or_else(|| panic!("no sample: {line}")));
        }
    }
    (runs, samples)
}
