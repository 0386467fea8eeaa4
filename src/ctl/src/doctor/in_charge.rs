//! Checks which process launches plugins, and whether the containers of each running engine are
//! adapted by its own NRI or by ours.

use super::{
    finding::DoctorReport,
    kinds::{
        ADAPTED_BY_BOTH, ADAPTED_BY_DOCKER_TOO, ADAPTED_BY_ENGINE, ADAPTED_BY_NONE,
        ADAPTED_BY_NRID, LAUNCHED_BY_BOTH, LAUNCHED_BY_ENGINE, LAUNCHED_BY_NRID, LAUNCHED_LATER,
    },
};
use crate::nrid_location::NridLocation;
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
    let dir = &nrid.plugin_dir;
    let shown = dir.display();
    let is_launcher = |engine: &&RunningEngine| match &engine.nri {
        NriState::On { plugin_path, .. } => {
            plugin_path.as_deref().unwrap_or(Path::new(PLUGIN_DIR)) == dir
        }
        NriState::Off => false,
    };
    match engines.iter().find(is_launcher).map(|e| format!("{} (process {})", e.name, e.pid)) {
        None if status.is_some() && !nrid_launches => report.add(
            LAUNCHED_LATER,
            format!(
                "{shown}: no engine launches them any more; nrid will launch them before the next \
                 container is created"
            ),
        ),
        None => report.add(LAUNCHED_BY_NRID, format!("{shown}: launched by nrid")),
        Some(engine) if nrid.config.plugin_path.is_none() && !nrid_launches => {
            report.add(LAUNCHED_BY_ENGINE, format!("{shown}: launched by {engine}, not by nrid"));
            report.advise(
                "Set plugin_path in the configuration to have nrid launch plugins of its own, for \
                 containers of other engines.",
            );
        }
        Some(engine) => report.add(
            LAUNCHED_BY_BOTH,
            format!("{shown}: launched by nrid and by {engine}, once by each"),
        ),
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
    let choice = match engine.name.as_str() {
        "containerd" => config.engines.containerd,
        "crio" => config.engines.crio,
        "isulad" => config.engines.isulad,
        _ => config.engines.docker,
    };
    if !is_installed && choice == AdaptedBy::Auto {
        return;
    }
    let version = engine.version.as_deref().unwrap_or("of unknown version");
    let engine_shown = format!("{} {version} (process {})", engine.name, engine.pid);
    let kind = match engine.name.as_str() {
        "containerd" | "isulad" => "CRI containers",
        _ => "containers",
    };
    if let ("dockerd", NriState::On { socket, plugin_path }) = (&*engine.name, &engine.nri)
        && choice != AdaptedBy::Engine
    {
        report.add(
            ADAPTED_BY_DOCKER_TOO,
            format!("{engine_shown}: both ours and its own NRI adapt its {kind}"),
        );
        report.advise(docker_advice(socket.as_deref(), plugin_path.as_deref()));
        return;
    }
    match (choice, engine.nri != NriState::Off) {
        (AdaptedBy::Nrid, true) => {
            report.add(
                ADAPTED_BY_BOTH,
                format!("{engine_shown}: both its own NRI and ours adapt its {kind}"),
            );
            report.advise(
                "Switch the engine's NRI off (`nrictl install --nri ours` does), or remove the \
                 engine from [engines].",
            );
        }
        (AdaptedBy::Engine, false) => report.add(
            ADAPTED_BY_NONE,
            format!(
                "{engine_shown}: no NRI adapts its {kind}: its own is off, and [engines] \
                 excludes ours"
            ),
        ),
        (_, true) => report.add(
            ADAPTED_BY_ENGINE,
            format!("{engine_shown}: its own NRI adapts its {kind}; ours does not"),
        ),
        (_, false) => {
            report.add(
                ADAPTED_BY_NRID,
                format!(
                    "{engine_shown}: ours adapts the containers that it runs through the wrapper"
                ),
            );
        }
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
