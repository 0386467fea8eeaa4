//! The shipped plugins give the replies that upstream's plugins of the same names give, but for the
//! differences that are listed with a reason ([`difference::Difference`]).
//!
//! Both are started as a runtime starts them, receive the same events about upstream's sample pods
//! and about generated ones, and their replies are compared as protobuf JSON. Upstream's plugins
//! are built from a checkout, since their modules are not published:
//!
//! ```sh
//! make compare-plugins SOURCE=DIR    # a checkout of containerd/nri
//! ```
//!
//! Without `NRI_TEST_SAMPLES`, the directory of upstream's plugins, only the shipped ones are
//! started, and it is checked that they adjust, refuse and leave alone some of the pods.
//! `NRI_UPSTREAM` is the checkout, for its sample pods. `NRI_PODS` is the number of generated pods
//! of each plugin, `NRI_SEED` their seed.
//!
//! `NRI_ROW` is the label of the only row to run.
//!
//! A plugin is a [`Row`] of [`rows::ROWS`].

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests, which fail by panicking and print a summary"
)]

mod cgroup_pods;
mod compare;
mod device_pods;
mod difference;
mod hook_pods;
mod logger_pods;
mod network_pods;
mod pods;
mod process;
mod rdt_pods;
mod replies;
mod rows;
mod runtime;
mod sample_pods;
mod ulimit_pods;
mod v010_pods;

use compare::Comparison;
use nri_tests::random::{self, Random};
use pods::Case;
use replies::Outcome;
use rows::{ROWS, Row};
use std::path::PathBuf;

/// Number of generated pods of a row: in a comparison, and without one.
const PODS: [u64; 2] = [500, 100];

/// Returns the number in a variable of the environment.
fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// Returns the pods of a row: the samples, and generated ones.
fn cases(row: &Row, samples: &[Case], pods: u64, seed: u64) -> Vec<Case> {
    let mut random = Random::new(seed);
    let generated = (0..number("NRI_PODS", pods)).map(|_| (row.pod)(&mut random));
    samples.iter().cloned().chain(generated).collect()
}

/// Compares the two plugins of a row, and returns the differences that are not listed.
async fn compare(
    row: &Row,
    upstream: &std::path::Path,
    samples: &[Case],
    seed: u64,
) -> Vec<String> {
    let cases = cases(row, samples, PODS[0], seed);
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let ours = process::start(row, &process::ours(row.name), dirs[0].path()).await;
    let theirs = process::start(row, &upstream.join(row.name), dirs[1].path()).await;
    let mut comparison = Comparison::new(row, ours.subscriptions(), theirs.subscriptions());
    for case in &cases {
        let (ours, theirs) = (ours.replies(case).await, theirs.replies(case).await);
        comparison.add(case, &ours, &theirs);
    }
    let [ours, theirs] = dirs.each_ref().map(|dir| (row.observed)(&process::root(dir.path())));
    comparison.add_observed(&ours, &theirs);
    println!("{}", comparison.summary());
    comparison.unlisted()
}

/// Sends the pods to the shipped plugin of a row alone, and counts its replies.
async fn run_alone(row: &Row, seed: u64) {
    let dir = tempfile::tempdir().unwrap();
    let plugin = process::start(row, &process::ours(row.name), dir.path()).await;
    let mut counts = [0; 3];
    for case in cases(row, &[], PODS[1], seed) {
        for reply in plugin.replies(&case).await {
            let kind = match reply.outcome {
                Outcome::Unchanged => 0,
                Outcome::Changed(_) => 1,
                Outcome::Refused(_) => 2,
                Outcome::Ended(why) => panic!("{}: {why}: {case:?}", row.label),
            };
            counts[kind] += 1;
        }
    }
    let [unchanged, changed, refused] = counts;
    println!("{}: {unchanged} unchanged, {changed} changed, {refused} refused", row.label);
    let is_expected = [row.spares, row.adjusts, row.refuses];
    for (count, expected) in counts.iter().zip(is_expected) {
        assert_eq!(*count > 0, expected, "{}: {counts:?}, seed {seed}", row.label);
    }
}

/// Returns the rows that this user can run.
fn rows() -> impl Iterator<Item = &'static Row> {
    let only = std::env::var("NRI_ROW").ok();
    let rows = ROWS.iter().filter(|row| only.as_ref().is_none_or(|label| label == row.label));
    let (usable, unusable): (Vec<_>, Vec<_>) =
        rows.partition(|row| row.files.is_none() || process::is_root());
    for row in unusable {
        println!("SKIPPED {}: not root, so its files cannot be mounted", row.label);
    }
    usable.into_iter()
}

#[tokio::test]
async fn replies_are_those_of_upstream() {
    let seed = number("NRI_SEED", 16);
    let Some(upstream) = std::env::var_os("NRI_TEST_SAMPLES").map(PathBuf::from) else {
        println!("SKIPPED comparison: NRI_TEST_SAMPLES is not set, see `make compare-plugins`");
        for row in rows() {
            run_alone(row, seed).await;
        }
        return;
    };
    let samples = std::env::var_os("NRI_UPSTREAM").map(PathBuf::from);
    let samples = samples.map_or_else(Vec::new, |checkout| sample_pods::read(&checkout));
    println!("{} containers of sample pods, seed {seed}", samples.len());
    let mut unlisted = Vec::new();
    for row in rows() {
        unlisted.extend(compare(row, &upstream, &samples, seed).await);
    }
    assert!(unlisted.is_empty(), "{} differences:\n{}", unlisted.len(), unlisted.join("\n"));
}
