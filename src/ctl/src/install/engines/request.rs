//! The request of an installation, and the changes that an engine needs for it.

use crate::install::{
    editing::file::Format, install_root::InstallRoot, runtimes::WrapperRuntime,
    version::EngineVersion,
};
use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OwnNri {
    On,
    Off,
    /// The engine's version has no NRI.
    #[default]
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
        self.version.is_some_and(|version| version.major >= major)
    }

    /// Whether the engine's version is known and less than `major`.
    pub(crate) fn is_before(&self, major: u32) -> bool {
        self.version.is_some_and(|version| version.major < major)
    }
}

/// Changes that an engine needs, and hints for the administrator.
#[derive(Debug, Default)]
pub(crate) struct EngineNeeds {
    pub(crate) targets: Vec<FileTarget>,
    pub(crate) notes: Vec<String>,
    pub(crate) nri: OwnNri,
    /// Commands that use the wrapper.
    pub(crate) usage: Vec<String>,
}

/// Values that one file must have.
#[derive(Debug, Clone)]
pub(crate) struct FileTarget {
    pub(crate) file: PathBuf,
    pub(crate) format: Format,
    /// Text that a new file begins with.
    pub(crate) header: String,
    pub(crate) values: Vec<(Vec<String>, Value)>,
    /// Paths of values that are removed if an earlier installation set them.
    pub(crate) unset: Vec<Vec<String>>,
}

impl FileTarget {
    /// Returns a target without any value yet.
    pub(crate) fn new(file: impl Into<PathBuf>, format: Format) -> Self {
        let (values, unset) = Default::default();
        Self { file: file.into(), format, header: String::new(), values, unset }
    }

    /// Returns a target for a file of our own, which only this installation writes. `engine` is the
    /// engine's name, with `--user` if it is that of a user.
    pub(crate) fn drop_in(file: impl Into<PathBuf>, engine: &str) -> Self {
        let header = format!(
            "# Made by `nrictl install {engine}`; `nrictl uninstall {engine}` removes it.\n"
        );
        Self { header, ..Self::new(file, Format::Toml) }
    }

    /// Adds a value.
    pub(crate) fn set(&mut self, at: Vec<String>, value: impl Into<Value>) {
        self.values.push((at, value.into()));
    }

    /// If `ours` is requested, switches the engine's own NRI off by setting the value at `at` to
    /// `off`. If another choice is requested, undoes an earlier switch.
    pub(crate) fn switch_nri(
        &mut self,
        request: &InstallRequest<'_>,
        state: OwnNri,
        at: Vec<String>,
        off: bool,
    ) {
        match request.nri {
            Some(NriChoice::Ours) if matches!(state, OwnNri::On | OwnNri::Unknown) => {
                self.set(at, off);
            }
            Some(NriChoice::Auto | NriChoice::Engine) => self.unset.push(at),
            _ => {}
        }
    }
}
