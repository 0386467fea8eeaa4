//! Decides whether the NRI of an engine or ours adjusts the engine's containers.

use nri_config::{AdaptedBy, Config};
use nri_host::{NriState, RunningEngine};

/// Who adjusts the containers of an engine that are created with the wrapper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InCharge {
    /// Ours alone.
    Ours,
    /// The engine's alone.
    Engine,
    /// Ours by `[engines]`, and the engine's, which is on.
    Both,
    /// Ours, and Docker's, which applies a part of an adjustment.
    DockerToo,
    /// Neither: `[engines]` excludes ours, and the engine's is off.
    Neither,
}

impl InCharge {
    /// Decides it for an engine that runs.
    pub(crate) fn of(config: &Config, engine: &RunningEngine) -> Self {
        let (choice, is_on) = (choice(config, engine), engine.nri != NriState::Off);
        match (choice, is_on) {
            (AdaptedBy::Auto | AdaptedBy::Nrid, true) if engine.name == "dockerd" => {
                Self::DockerToo
            }
            (AdaptedBy::Nrid, true) => Self::Both,
            (AdaptedBy::Engine, false) => Self::Neither,
            (_, true) => Self::Engine,
            (_, false) => Self::Ours,
        }
    }
}

/// Returns the value of the engine's key in `[engines]`.
pub(crate) fn choice(config: &Config, engine: &RunningEngine) -> AdaptedBy {
    match engine.name.as_str() {
        "containerd" => config.engines.containerd,
        "crio" => config.engines.crio,
        "isulad" => config.engines.isulad,
        _ => config.engines.docker,
    }
}

/// Names those containers of an engine that its own NRI adjusts.
pub(crate) fn kind_of_containers(engine: &RunningEngine) -> &'static str {
    match engine.name.as_str() {
        "containerd" | "isulad" => "CRI containers",
        _ => "containers",
    }
}
