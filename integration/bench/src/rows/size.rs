//! Compares an `nrid` that knows 10,000 containers with an `nrid` that knows 10. A test of `nrid`,
//! `src/service/tests/operate/size.rs`, measures both, because the records that it writes are an
//! internal format of `nrid`.

use crate::{
    bench::Bench,
    row::{Row, Target},
};
use nri_bench::programs::run;
use serde_json::Value;
use std::{fs, process::Command};

/// Numbers of containers.
const SIZES: [usize; 2] = [10, 10_000];

/// Number of creations that the test measures: the constant of the same name in the test.
const CREATIONS: usize = 200;

pub(crate) fn measure(bench: &Bench) -> Vec<Row> {
    let dir = tempfile::Builder::new().prefix("nri-").tempdir().expect("TMPDIR is writable");
    let file = dir.path().join("results");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut test = Command::new(cargo);
    test.args(["test", "--release", "--quiet", "-p", "nrid", "--test", "operate", "size::"]);
    test.args(["--", "--ignored", "--nocapture"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    test.env("NRID", bench.options.programs.join("nrid")).env("RESULTS", &file);
    run(test.env("SIZES", SIZES.map(|size| size.to_string()).join(" ")));
    let text = fs::read_to_string(&file).expect("the test writes its result");
    let results: Value = serde_json::from_str(&text).expect("the result is JSON");
    let number = |which: usize, name: &str| results[which][name].as_f64().expect("a number");
    let many = SIZES[1];
    let mut rows = vec![Row {
        what: format!("`create` and `start` with {many} containers known"),
        peer: format!("{} known: {:.0} µs", SIZES[0], number(0, "create_us")),
        here: format!("{:.0} µs", number(1, "create_us")),
        value: number(1, "create_us") / number(0, "create_us"),
        unit: "",
        target: Some(Target::AtMost(1.2)),
        samples: CREATIONS,
    }];
    for (what, name, scale, unit, limit) in [
        ("start of `nrid`", "start_ms", 1e-3, "s", 1.0),
        ("Synchronize of a new plugin", "synchronize_ms", 1e-3, "s", 1.0),
        ("resident memory", "resident_mb", 1.0, "MB", 64.0),
        ("CPU of one core while idle", "idle_cpu_percent", 1.0, "%", 0.1),
    ] {
        let [few, value] = [0, 1].map(|which| number(which, name) * scale);
        rows.push(Row {
            what: format!("{what} with {many} containers known"),
            peer: format!("{} known: {few:.2} {unit}", SIZES[0]),
            here: format!("{value:.2} {unit}"),
            value,
            unit,
            target: Some(Target::AtMost(limit)),
            samples: 1,
        });
    }
    rows
}
