//! Checks which process launches plugins, and whether the containers of each running engine are
//! adapted by its own NRI or by ours.

use super::{
    finding::DoctorReport,
    kinds::{
        ADAPTED_BY_BOTH, ADAPTED_BY_DOCKER_TOO, ADAPTED_BY_ENGINE, ADAPTED_BY_NONE,
        ADAPTED_BY_NRID, LAUNCHED_BY_BOTH, LAUNCHED_BY_NRID, LAUNCHED_LATER, PLUGINS_UNCALLED,
    },
};
use crate::{
    in_charge::{InCharge, choice, kind_of_containers},
    nrid_location::NridLocation,
    uncalled::Uncalled,
};
use nri_config::{AdaptedBy, Config};
use nri_control::Status;
use nri_host::{NriState, RunningEngine};
use nri_locate::PLUGIN_DIR;
use std::path::Path;

/// Checks which process launches the plugins of the plugin directory.
pub(super) fn plugins(
    report: &mut DoctorReport,
    nrid: &NridLocation,
    status: Option<&Status>,
    engines: &[RunningEngine],
) {
    let nrid_launches = status.is_some_and(|status| status.plugin_dir.is_some());
    let dir = &nrid.plugin_dirs.programs;
    let shown = dir.display();
    let is_launcher = |engine: &&RunningEngine| match &engine.nri {
        NriState::On { plugin_path, .. } => {
            plugin_path.as_deref().unwrap_or(Path::new(PLUGIN_DIR)) == dir
        }
        NriState::Off => false,
    };
    match engines.iter().find(is_launcher).map(|e| format!("{} (process {})", e.name, e.pid)) {
        None => report.add(LAUNCHED_BY_NRID, format!("{shown}: launched by nrid")),
        Some(engine) if nrid.plugin_dirs.are_shared && !nrid_launches => report.add(
            LAUNCHED_LATER,
            format!(
                "{shown}: launched by {engine} for its own containers; nrid launches them, too, \
                 before the first container that it adjusts"
            ),
        ),
        Some(engine) => report.add(
            LAUNCHED_BY_BOTH,
            format!("{shown}: launched by nrid and by {engine}, by each for its own containers"),
        ),
    }
}

/// Checks whether plugins exist that are called for no container.
pub(super) fn uncalled(
    report: &mut DoctorReport,
    nrid: &NridLocation,
    status: Option<&Status>,
    engines: &[RunningEngine],
) {
    if let Some(uncalled) = Uncalled::find_among(nrid, status, engines) {
        report.add(PLUGINS_UNCALLED, uncalled.to_string());
    }
}

/// Checks whether an engine's own NRI or ours adapts its containers. Reports nothing of an engine
/// that neither has the wrapper in its files (`is_installed`) nor is in `[engines]`.
pub(super) fn containers(
    report: &mut DoctorReport,
    config: &Config,
    engine: &RunningEngine,
    is_installed: bool,
) {
    if !is_installed && choice(config, engine) == AdaptedBy::Auto {
        return;
    }
    let version = engine.version.as_deref().unwrap_or("of unknown version");
    let engine_shown = format!("{} {version} (process {})", engine.name, engine.pid);
    let kind = kind_of_containers(engine);
    match InCharge::of(config, engine) {
        InCharge::DockerToo => {
            report.add(
                ADAPTED_BY_DOCKER_TOO,
                format!("{engine_shown}: both ours and its own NRI adapt its {kind}"),
            );
            if let NriState::On { socket, plugin_path } = &engine.nri {
                report.advise(docker_advice(socket.as_deref(), plugin_path.as_deref()));
            }
        }
        InCharge::Both => {
            report.add(
                ADAPTED_BY_BOTH,
                format!("{engine_shown}: both its own NRI and ours adapt its {kind}"),
            );
            report.advise(format!(
                "Switch the engine's NRI off (`nrictl install {} --nri ours` does), or remove the \
                 engine from [engines].",
                engine.name
            ));
        }
        InCharge::Neither => report.add(
            ADAPTED_BY_NONE,
            format!(
                "{engine_shown}: no NRI adapts its {kind}: its own is off, and [engines] \
                 excludes ours"
            ),
        ),
        InCharge::Engine => report.add(
            ADAPTED_BY_ENGINE,
            format!("{engine_shown}: its own NRI adapts its {kind}; ours does not"),
        ),
        InCharge::Ours => report.add(
            ADAPTED_BY_NRID,
            format!("{engine_shown}: ours adapts the containers that it runs through the wrapper"),
        ),
    }
}

/// Returns the advice for a Docker whose own NRI is on beside ours.
fn docker_advice(socket: Option<&Path>, plugin_path: Option<&Path>) -> String {
    let socket = socket.map(|path| format!("connected to {}", path.display()));
    let dir = plugin_path.map(|path| format!("launched from {}", path.display()));
    let theirs: Vec<String> = socket.into_iter().chain(dir).collect();
    format!(
        "Plugins {} are called by Docker itself, which applies only a part of their adjustments. \
         Switch Docker's NRI off (`nrictl install docker --nri ours`, then restart Docker), or \
         leave its containers to it with docker = \"engine\" in [engines].",
        theirs.join(" or ")
    )
}
