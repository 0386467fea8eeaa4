//! Checks whether containers of the engines that have the wrapper in their files run without it. An
//! engine starts a container with the runtime that the container was created with, whatever the
//! default runtime is now.

use super::{
    finding::DoctorReport,
    kinds::{CONTAINERS_KEEP_RUNTIME, CONTAINERS_UNREAD, CONTAINERS_WITHOUT_WRAPPER},
};
use crate::{
    engine_containers::{EngineContainer, TIMEOUT, Wrapper, few, find, shown},
    in_charge::InCharge,
    install::TargetEngine,
    nrid_location::NridLocation,
    units::counted,
};
use nri_host::RunningEngine;

/// Counts the running containers that the wrapper did not start. `installed` has the engines with
/// the wrapper in their files, and whether it is their default runtime.
pub(super) fn containers(
    report: &mut DoctorReport,
    nrid: &NridLocation,
    installed: &[(TargetEngine, bool)],
    running: &[RunningEngine],
) {
    if installed.is_empty() {
        return;
    }
    let found = find(&nrid.launcher.state_dir);
    for directory in found.unread {
        let directory = directory.display();
        report.add(CONTAINERS_UNREAD, format!("{directory}: not read within {TIMEOUT:?}"));
        report.advise("Containers in it may run without nri-container-runtime.");
    }
    for (engine, is_default) in installed {
        // Its containers pass through, also those of the wrapper.
        let is_left = |other: &RunningEngine| {
            matches!(InCharge::of(&nrid.config, other), InCharge::Engine | InCharge::Neither)
        };
        let mut processes = running.iter().filter(|other| other.name == engine.facts().program);
        if processes.any(is_left) {
            continue;
        }
        let is_without = |container: &&EngineContainer| {
            container.wrapper == Wrapper::No && container.is_of(*engine)
        };
        let without: Vec<_> = found.containers.iter().filter(is_without).map(shown).collect();
        if without.is_empty() {
            continue;
        }
        let engine = engine.name();
        let count = counted(without.len(), "running container");
        let text = format!("{engine}: {count} without nri-container-runtime: {}", few(&without));
        if *is_default {
            report.add(CONTAINERS_KEEP_RUNTIME, format!("{text}, although it is the default"));
            report.advise(
                "No plugin saw them. A container keeps the runtime that it was created with, also \
                 over a restart; `nrictl containers --all-runtimes` lists them, and \
                 docs/existing-containers.md says how to create them again.",
            );
        } else {
            report.add(CONTAINERS_WITHOUT_WRAPPER, text);
            report.advise("`nrictl containers --all-runtimes` lists them. No plugin saw them.");
        }
    }
}
