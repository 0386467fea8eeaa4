//! Podman, with the wrapper as its runtime and plugins on upstream's Go stub.

mod crun;
mod failing;
mod identity;
mod infra;
mod install;
mod life;
mod pods;
mod update;

use crate::docker::{IMAGE, WAIT, adjustment, kernel_tells_exit_codes};
use nri_integration::{engines::*, *};
use serde_json::{Value, json};

/// A podman with a plugin that adjusts every container.
struct Adjusted {
    // Dropped in this order: a plugin that is told of the end needs not be there.
    podman: Podman,
    plugin: External,
}

impl Adjusted {
    fn start(suite: &Suite, go: &Program, adjustment: &Value) -> Self {
        Self::with(Podman::start(suite), go, adjustment)
    }

    fn with(podman: Podman, go: &Program, adjustment: &Value) -> Self {
        podman.ctl(&["start"]).success();
        let config = json!({"rules": [{"adjust": adjustment}]});
        let plugin = podman.connect("10-go", go, &config.to_string());
        Self { podman, plugin }
    }

    /// Waits until a container is told to be removed for the nth time, and returns all that was
    /// heard of it.
    fn lives(&self, id: &str, n: usize) -> Vec<String> {
        wait_until(format_args!("life {n} of {id} to end"), || {
            let events = self.plugin.journal.events(id);
            (events.iter().filter(|e| *e == "RemovePodSandbox").count() >= n).then_some(events)
        })
    }
}

/// Runs a test with the podman of each suite and the Go plugin.
fn for_each(name: &str, test: impl Fn(&Suite, &Program)) {
    let Some(go) = go(name) else { return };
    for_each_suite(name, "podman", |suite| test(suite, &go));
}
