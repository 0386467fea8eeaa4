//! The request of an installation.

use super::kind::EngineVersion;
use crate::install::{install_root::InstallRoot, runtimes::WrapperRuntime};
use clap::ValueEnum;
use serde::Serialize;
use std::path::Path;

/// The NRI that adapts an engine's containers: a value of `[engines]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NriChoice {
    /// The engine's NRI while it is on, else ours.
    Auto,
    /// The engine's NRI.
    Engine,
    /// Our NRI; the engine's is switched off in its configuration.
    Ours,
}

/// State of an engine's own NRI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OwnNri {
    On,
    Off,
    /// The engine's version has no NRI.
    None,
    /// NRI is on or off depending on the version, which is unknown.
    Unknown,
}

/// A requested installation.
#[derive(Debug)]
pub(crate) struct InstallRequest<'a> {
    pub(crate) root: &'a InstallRoot,
    /// Our configuration file.
    pub(crate) own_config: &'a Path,
    /// The engine's file, if not the usual one.
    pub(crate) file: Option<&'a Path>,
    pub(crate) version: Option<EngineVersion>,
    /// The runtime of `--name`, then the runtimes of `--runtime`.
    pub(crate) runtimes: Vec<WrapperRuntime>,
    /// Whether the first runtime becomes the engine's default.
    pub(crate) default: bool,
    pub(crate) nri: Option<NriChoice>,
}

impl InstallRequest<'_> {
    /// Returns the name of the wrapper in the engine.
    pub(crate) fn name(&self) -> &str {
        self.runtimes.first().map_or("", |runtime| &runtime.name)
    }

    /// Whether the engine's version is known and at least `major`.
    pub(crate) fn is_since(&self, major: u32) -> bool {
        self.version.is_some_and(|(known, _)| known >= major)
    }

    /// Whether the engine's version is known and less than `major`.
    pub(crate) fn is_before(&self, major: u32) -> bool {
        self.version.is_some_and(|(known, _)| known < major)
    }
}
