//! Compares the CPU time of the release build on a clean clone with that of an earlier commit.

use crate::{
    bench::Bench,
    row::{Row, Target},
    timing::children_cpu,
};
use nri_bench::programs::run;
use std::process::Command;

/// The programs of a node.
const PROGRAMS: [&str; 4] = ["nri-container-runtime", "nri-oci-hook", "nrid", "nrictl"];

pub(crate) fn measure(bench: &Bench) -> Vec<Row> {
    let base = bench.options.build.as_deref().unwrap_or_else(|| {
        panic!("the group build needs --build COMMIT, the commit to compare with")
    });
    let (before, now) = (build(base), build("HEAD"));
    let minutes = |seconds: f64| format!("{:.1} min", seconds / 60.0);
    vec![Row {
        what: "release build of the four programs on a clean clone, CPU time".to_owned(),
        peer: format!("{base}: {}", minutes(before)),
        here: minutes(now),
        value: now / before,
        unit: "",
        target: Some(Target::AtMost(0.5)),
        samples: 1,
    }]
}

/// Clones the repository, builds a commit, and returns the CPU time of the build in seconds. The
/// download of dependencies does not count.
fn build(commit: &str) -> f64 {
    // Larger than TMPDIR may be.
    let dir = tempfile::Builder::new().prefix("build-").tempdir_in(nri_integration::program_dir());
    let dir = dir.expect("the directory of the programs is writable");
    let clone = dir.path().join("clone");
    let repository = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    run(Command::new("git").args(["clone", "--quiet", "--shared", repository]).arg(&clone));
    let commit = commit_id(commit);
    run(Command::new("git").arg("-C").arg(&clone).args(["checkout", "--quiet", &commit]));
    let cargo = || {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&clone).env_remove("CARGO_TARGET_DIR");
        cargo
    };
    run(cargo().args(["fetch", "--locked", "--quiet"]));
    let before = children_cpu();
    run(cargo()
        .args(["build", "--release", "--locked", "--quiet"])
        .args(PROGRAMS.iter().flat_map(|name| ["-p", name])));
    (children_cpu() - before) / 1e6
}

/// Resolves the name of a commit in this work tree, because `HEAD` of the clone may be a different
/// commit.
fn commit_id(name: &str) -> String {
    let mut command = Command::new("git");
    command.args(["rev-parse", "--verify", name]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = command.output().expect("git is installed");
    assert!(output.status.success(), "git rev-parse {name} failed");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
