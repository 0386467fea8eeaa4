//! The shared plugins: the plugins in the default plugin directory, which every NRI runtime of the
//! host launches for its own containers. `nrid` does, too, as soon as it adjusts a container; on a
//! node where engines with NRI adjust all containers, it never does.

use crate::settings::load::Settings;
use nri_adaptation::OtherRuntime;
use nri_host::{command_name, launcher_of};
use nri_locate::PLUGIN_DIR;
use std::{path::Path, time::Instant};

/// Whether `nrid` launches the shared plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharedLaunch {
    /// It does. An engine, if there is one here, launches them as well.
    Launched(Option<OtherRuntime>),
    /// This engine does, and `nrid` has adjusted no container yet.
    Deferred(OtherRuntime),
}

impl SharedLaunch {
    /// Decides it. `owns_socket`: `nrid` listens on the shared socket, so no engine does.
    /// `has_adjusted`: `nrid` has containers.
    pub fn decide(settings: &Settings, owns_socket: bool, has_adjusted: bool) -> Self {
        if owns_socket || !settings.plugin_dirs.are_shared {
            return Self::Launched(None);
        }
        match engine_that_launches() {
            Some(engine) if !has_adjusted => {
                tracing::info!(
                    directory = PLUGIN_DIR,
                    "NRI of {} launches the shared plugins; nrid launches them for its own \
                     containers before it adjusts the first one",
                    engine.name
                );
                Self::Deferred(engine)
            }
            engine => Self::Launched(engine),
        }
    }
}

/// Returns the engine that launches the shared plugins for its own containers.
pub(super) fn engine_that_launches() -> Option<OtherRuntime> {
    let pid = launcher_of(Path::new(PLUGIN_DIR))?;
    let engine = command_name(pid);
    Some(OtherRuntime {
        name: format!("{engine} (process {pid})"),
        remedy: format!("nrictl install {engine} --nri ours"),
    })
}

/// What a creation has to do with the shared plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedState {
    /// Launch them.
    Deferred,
    /// Nothing: all are launched.
    Launched,
    /// Check whether the engine has stopped launching those of which only one instance may run. The
    /// time is that of the last check.
    Withheld(Instant),
}

impl SharedState {
    /// Returns the state after a launch. `is_any_withheld`: a plugin is not launched because an
    /// engine launches it.
    pub fn of(launch: &SharedLaunch, is_any_withheld: bool) -> Self {
        match launch {
            SharedLaunch::Deferred(_) => Self::Deferred,
            SharedLaunch::Launched(_) if is_any_withheld => Self::Withheld(Instant::now()),
            SharedLaunch::Launched(_) => Self::Launched,
        }
    }
}
