//! Placement of exclusive CPUs by the plugin `topology`, measured on random histories of containers
//! on machines of `src/plugins/topology/tests/topologies`, and compared with plugins of
//! containers/nri-plugins on the same histories:
//!
//! ```sh
//! make compare-placement SOURCE=DIR    # a checkout of containers/nri-plugins
//! ```
//!
//! Each plugin is its real program, which connects to the socket of [`nri_runtime::Nri`] and reads
//! the machine from a directory with the files of sysfs. There are no processes of containers: what
//! a container has is what the plugins set and update.
//!
//! Without `NRI_TEST_POLICIES`, the directory of the other plugins, only ours runs, on few events.
//! It must place each container that fits, on CPUs that no other container has.
//!
//! `NRI_EVENTS` and `NRI_SEED` are the number of events on each machine and their seed,
//! `NRI_MACHINE` is the only machine, and `NRI_JSON` is a file for all figures.
//! `docs/reference/topology-compared.md` has the results.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests, which fail by panicking and print a table"
)]

mod contenders;
mod figures;
mod history;
mod machines;
mod runtime;

use contenders::{CONTENDERS, Contender, OURS};
use figures::Figures;
use history::Event;
use machines::Tree;
use std::{collections::BTreeMap, path::PathBuf};

/// Number of events of a machine: in a comparison, and without one.
const EVENTS: [u64; 2] = [1000, 80];

/// Returns the number in a variable of the environment.
fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// Runs a history with one plugin. The error is the reason why the plugin does not run.
async fn measure<'a>(
    tree: &'a Tree,
    contender: &Contender,
    policies: Option<&PathBuf>,
    events: &[Event],
) -> Result<Figures<'a>, String> {
    let running = contender.start(tree, policies).await?;
    let mut figures = Figures::new(&tree.machine);
    for (number, event) in events.iter().enumerate() {
        running.run(number, event, &mut figures).await?;
    }
    running.end().await;
    Ok(figures)
}

#[tokio::test]
async fn containers_are_placed_near() {
    let policies = std::env::var_os("NRI_TEST_POLICIES").map(PathBuf::from);
    let [many, few] = EVENTS;
    let (events, seed) = (if policies.is_some() { many } else { few }, number("NRI_SEED", 16));
    let events = number("NRI_EVENTS", events) as usize;
    println!("{events} events for each machine, seed {seed}");
    if policies.is_none() {
        println!("SKIPPED comparison: NRI_TEST_POLICIES is not set, see `make compare-placement`");
    }
    let mut all = BTreeMap::new();
    println!("{}", Figures::HEAD);
    let only = std::env::var("NRI_MACHINE").ok();
    let is_wanted = |tree: &Tree| only.as_ref().is_none_or(|name| *name == tree.name);
    for tree in machines::all().into_iter().filter(is_wanted) {
        let events = history::any(&tree.machine, events, seed);
        for contender in CONTENDERS.iter().filter(|c| policies.is_some() || c.program == OURS) {
            let measured = measure(&tree, contender, policies.as_ref(), &events).await;
            match &measured {
                Ok(figures) => println!("{}", figures.row(&tree.name, contender.label)),
                Err(why) => println!("| {} | {} | {why} |", tree.name, contender.label),
            }
            let json = match &measured {
                Ok(figures) => figures.json(),
                Err(why) => serde_json::json!({ "failed": why }),
            };
            all.insert(format!("{} {}", tree.name, contender.label), json);
            if contender.program == OURS {
                measured.expect("our plugin runs").check(&tree.name);
            }
        }
    }
    if let Some(file) = std::env::var_os("NRI_JSON") {
        std::fs::write(file, serde_json::to_vec_pretty(&all).unwrap()).unwrap();
    }
}
