//! Checks which process launches plugins, and whether the containers of each running engine are
//! adapted by its own NRI or by ours.

use super::finding::DoctorReport;
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
    let dir = nrid.config.plugin_path.clone().unwrap_or_else(|| PLUGIN_DIR.into());
    let shown = dir.display();
    let is_launcher = |engine: &&RunningEngine| match &engine.nri {
        NriState::On { plugin_path, .. } => {
            plugin_path.as_deref().unwrap_or(Path::new(PLUGIN_DIR)) == dir
        }
        NriState::Off => false,
    };
    match engines.iter().find(is_launcher).map(|e| format!("{} (process {})", e.name, e.pid)) {
        None if status.is_some() && !nrid_launches => report.note(
            "plugins",
            format!(
                "{shown}: no engine launches them any more; nrid will launch them before the next \
                 container is created"
            ),
        ),
        None => report.ok("plugins", format!("{shown}: launched by nrid")),
        Some(engine) if nrid.config.plugin_path.is_none() && !nrid_launches => {
            report.note("plugins", format!("{shown}: launched by {engine}, not by nrid"));
            report.advise(
                "Set plugin_path in the configuration to have nrid launch plugins of its own, for \
                 containers of other engines.",
            );
        }
        Some(engine) => report
            .note("plugins", format!("{shown}: launched by nrid and by {engine}, once by each")),
    }
}

/// Checks whether an engine's own NRI or ours adapts its containers.
pub(super) fn in_charge(report: &mut DoctorReport, config: &Config, engine: &RunningEngine) {
    const ABOUT: &str = "in charge";
    let choice = match engine.name.as_str() {
        "containerd" => config.engines.containerd,
        "crio" => config.engines.crio,
        _ => config.engines.docker,
    };
    let version = engine.version.as_deref().unwrap_or("of unknown version");
    let engine_shown = format!("{} {version} (process {})", engine.name, engine.pid);
    let kind = if engine.name == "containerd" { "CRI containers" } else { "containers" };
    if let ("dockerd", NriState::On { socket, plugin_path }) = (&*engine.name, &engine.nri)
        && choice != AdaptedBy::Engine
    {
        report.note(ABOUT, format!("{engine_shown}: both ours and its own NRI adapt its {kind}"));
        report.advise(docker_advice(socket.as_deref(), plugin_path.as_deref()));
        return;
    }
    match (choice, engine.nri != NriState::Off) {
        (AdaptedBy::Nrid, true) => {
            report.problem(
                ABOUT,
                format!("{engine_shown}: both its own NRI and ours adapt its {kind}"),
            );
            report.advise(
                "Switch the engine's NRI off (`nrictl install --nri ours` does), or remove the \
                 engine from [engines].",
            );
        }
        (AdaptedBy::Engine, false) => report.problem(
            ABOUT,
            format!(
                "{engine_shown}: no NRI adapts its {kind}: its own is off, and [engines] \
                 excludes ours"
            ),
        ),
        (_, true) => report
            .note(ABOUT, format!("{engine_shown}: its own NRI adapts its {kind}; ours does not")),
        (_, false) => {
            report.ok(
                ABOUT,
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
