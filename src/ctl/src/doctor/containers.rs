//! Checks whether containers of the engines that have the wrapper in their files run without it, or
//! have passed through it. An engine starts a container with the runtime that the container was
//! created with, whatever the default runtime is now.

use super::{
    finding::DoctorReport,
    kinds::{
        CONTAINERS_KEEP_RUNTIME, CONTAINERS_PASSED, CONTAINERS_UNREAD, CONTAINERS_WITHOUT_WRAPPER,
    },
};
use crate::{
    engine_containers::{EngineContainer, TIMEOUT, Wrapper, few, find, name_and_id, shown},
    in_charge::InCharge,
    install::TargetEngine,
    nrid_location::NridLocation,
    units::counted,
};
use nri_host::RunningEngine;

/// Counts the running containers that the wrapper did not start, or passed through. `installed` has
/// the engines with the wrapper in their files, and whether it is their default runtime.
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
        let mut processes = running.iter().filter(|other| other.name == engine.program());
        if processes.any(is_left) {
            continue;
        }
        let of_engine = || found.containers.iter().filter(|container| container.is_of(*engine));
        passed_through(report, nrid, engine.name(), of_engine());
        let without = of_engine().filter(|container| container.wrapper == Wrapper::No);
        let without: Vec<_> = without.map(shown).collect();
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

/// Counts the containers of an engine that have the wrapper as their runtime, and no record.
fn passed_through<'a>(
    report: &mut DoctorReport,
    nrid: &NridLocation,
    engine: &str,
    containers: impl Iterator<Item = &'a EngineContainer>,
) {
    let passed = containers.filter(|container| container.wrapper == Wrapper::PassedThrough);
    let passed: Vec<_> = passed.map(|c| name_and_id(&c.name, &c.id)).collect();
    // A container that has opted out looks the same, and is meant to.
    if passed.is_empty() || nrid.config.opt_out.annotation.is_some() {
        return;
    }
    let (count, few) = (counted(passed.len(), "running container"), few(&passed));
    report.add(
        CONTAINERS_PASSED,
        format!("{engine}: {count} of nri-container-runtime without plugins: {few}"),
    );
    report.advise(
        "Created or started while the bypass was on, or with `disable = true`. Once that is over, \
         start them again (`docker restart`), or create them again: docs/existing-containers.md",
    );
}
