//! `nrictl install` and `nrictl uninstall`: the wrapper into the configuration of engines, and out
//! of it again.
//!
//! An engine's module says which values which file must have (`engine.rs`); `plan.rs` and
//! `uninstall.rs` decide from that and from the manifest what every file will be; `apply.rs` makes
//! it real. Nothing here restarts anything.

mod apply;
mod containerd;
mod crio;
mod defaults;
mod diff;
mod docker;
mod document;
mod engine;
mod error;
mod fresh;
mod isulad;
mod json;
mod manifest;
mod nerdctl;
mod own;
mod plan;
mod podman;
mod report;
mod root;
mod toml;
mod uninstall;
mod version;
mod wrapper;

pub(crate) use error::InstallError;

use clap::Args;
use engine::{Asked, Engine};
use manifest::{MANIFEST, Manifest};
use nri_locate::{CONFIG_ENV, CONFIG_FILE};
use own::Nri;
use plan::{Content, Plan};
use report::Report;
use root::Root;
use std::{
    fs::File,
    path::{Path, PathBuf},
};
use version::Version;

const CODES: &str = "Exit codes: 0 done, or nothing to do; 1 the machine did not do it, all is as before; \
                     2 wrong command line; 4 refused, nothing has changed.\n\
                     Nothing is restarted: what makes the engine read its files is printed.";

/// What both commands take.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// The engine.
    engine: Engine,
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// For programs.
    #[arg(long)]
    json: bool,
    /// The engine's configuration file, if it is not the usual one.
    #[arg(long, value_name = "FILE")]
    engine_config: Option<PathBuf>,
    /// An image's root directory: all paths are below it, and no program is run.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

/// `nrictl install`
#[derive(Debug, Args)]
#[command(after_help = CODES)]
pub(crate) struct Install {
    #[command(flatten)]
    common: Common,
    /// Make it the engine's default runtime.
    #[arg(long)]
    default: bool,
    /// The engine's name for the wrapper.
    #[arg(long, default_value = wrapper::DEFAULT_NAME)]
    name: String,
    /// A further runtime NAME: the wrapper with PATH as the real runtime, instead of the first of
    /// runc, crun and youki. May be repeated.
    #[arg(long, value_name = "NAME=PATH", value_parser = further)]
    runtime: Vec<(String, PathBuf)>,
    /// The wrapper, if it is neither beside nrictl nor in a usual directory.
    #[arg(long, value_name = "PATH")]
    wrapper: Option<PathBuf>,
    /// Whose NRI adapts the containers of an engine that has NRI of its own; `ours` also switches
    /// the engine's off.
    #[arg(long, value_enum, value_name = "WHO")]
    nri: Option<Nri>,
    /// The engine's version, if it cannot be asked.
    #[arg(long, value_name = "X.Y")]
    engine_version: Option<Version>,
}

/// `nrictl uninstall`
#[derive(Debug, Args)]
#[command(after_help = CODES)]
pub(crate) struct Uninstall {
    #[command(flatten)]
    common: Common,
}

fn further(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("not NAME=PATH")?;
    Ok((name.to_owned(), path.into()))
}

impl Install {
    /// Runs the command; `ours` is our configuration file.
    ///
    /// # Errors
    /// Something is refused or does not work; then nothing has changed.
    pub(crate) fn run(&self, ours: Option<&Path>) -> Result<(), InstallError> {
        reported(&self.common, || self.perform(ours.unwrap_or(Path::new(CONFIG_FILE))))
    }

    fn perform(&self, ours: &Path) -> Result<Report, InstallError> {
        let (engine, root) = (self.common.engine, open(&self.common)?);
        let file = engine_config(&self.common)?;
        let lock = (!self.common.dry_run).then(|| lock(&root)).flatten();
        if self.nri.is_some() && !engine.has_nri() {
            return Err(InstallError::NoNri { engine: engine.name() });
        }
        let wrapper = wrapper::find(&root, self.wrapper.as_deref())?;
        let runtimes = wrapper::runtimes(&root, &wrapper, &self.name, &self.runtime)?;
        let manifest = Manifest::read(&root)?;
        let left = lock.as_ref().map(|_| left_behind(&root, engine, file.as_deref(), &manifest));
        let asked = Asked {
            root: &root,
            ours,
            file: file.as_deref(),
            version: self.engine_version.or_else(|| version::ask(&root, engine)),
            runtimes,
            default: self.default,
            nri: self.nri,
        };
        let needs = engine.needs(&asked)?;
        let mut plan = Plan::new(&manifest);
        for runtime in asked.runtimes.iter().filter(|runtime| runtime.real.is_some()) {
            plan.link(&root, engine.name(), &runtime.binary, &wrapper)?;
        }
        let own = own::target(&root, ours, &manifest, engine.name(), &asked.runtimes, self.nri)?;
        if let Some(bytes) = plan.install(&root, engine.name(), &own)? {
            own::parse(ours, &bytes)?;
        }
        for target in &needs.targets {
            plan.install(&root, engine.name(), target)?;
        }
        plan.notes.extend(left.into_iter().flatten());
        plan.finish(&root, true)?;
        if ours != Path::new(CONFIG_FILE) {
            plan.notes.push(format!(
                "engines call the wrapper without {}: it reads {CONFIG_FILE} unless {CONFIG_ENV} is in the engine's environment",
                ours.display()
            ));
        }
        if !self.common.dry_run {
            apply::apply(&root, &plan.steps)?;
        }
        Ok(Report::installed(&root, &self.common, &asked, needs, plan))
    }
}

impl Uninstall {
    /// Runs the command; `ours` is our configuration file.
    ///
    /// # Errors
    /// Something is refused or does not work; then nothing has changed.
    pub(crate) fn run(&self, ours: Option<&Path>) -> Result<(), InstallError> {
        reported(&self.common, || self.perform(ours))
    }

    fn perform(&self, ours: Option<&Path>) -> Result<Report, InstallError> {
        let (engine, root) = (self.common.engine, open(&self.common)?);
        let file = engine_config(&self.common)?;
        let lock = (!self.common.dry_run).then(|| lock(&root)).flatten();
        let manifest = Manifest::read(&root)?;
        let left = lock.as_ref().map(|_| left_behind(&root, engine, file.as_deref(), &manifest));
        let mut plan = uninstall::plan(&root, engine, file.as_deref(), ours, &manifest)?;
        plan.notes.extend(left.into_iter().flatten());
        plan.finish(&root, false)?;
        if !self.common.dry_run {
            apply::apply(&root, &plan.steps)?;
            uninstall::tidy(&root, &manifest.directories);
        }
        Ok(Report::uninstalled(&self.common, plan))
    }
}

fn open(common: &Common) -> Result<Root, InstallError> {
    let dir = common.root.as_deref();
    Root::new(dir).map_err(|e| InstallError::Read(dir.unwrap_or(Path::new("/")).to_owned(), e))
}

/// The engine's file as the manifest names it: from anywhere.
fn engine_config(common: &Common) -> Result<Option<PathBuf>, InstallError> {
    let Some(file) = &common.engine_config else { return Ok(None) };
    match &common.root {
        Some(_) if file.is_relative() => Err(InstallError::RelativeInside(file.clone())),
        Some(_) => Ok(Some(file.clone())),
        None => {
            std::path::absolute(file).map(Some).map_err(|e| InstallError::Read(file.clone(), e))
        }
    }
}

/// One at a time. What cannot be locked cannot be written to either, and that says so.
fn lock(root: &Root) -> Option<File> {
    let etc = File::open(root.real(Path::new("/etc")).ok()?).ok()?;
    rustix::fs::flock(&etc, rustix::fs::FlockOperation::LockExclusive).ok()?;
    Some(etc)
}

/// Removes what a call that was killed has left, and says so.
fn left_behind(
    root: &Root,
    engine: Engine,
    file: Option<&Path>,
    manifest: &Manifest,
) -> Vec<String> {
    // A file that is not understood is told later.
    let schemas = engine.schemas(root, file).unwrap_or_default();
    let usual = schemas.into_iter().map(|schema| schema.file);
    let own = [PathBuf::from(CONFIG_FILE), PathBuf::from(MANIFEST)];
    let left = fresh::sweep(root, manifest.files.keys().cloned().chain(usual).chain(own));
    left.iter()
        .map(|path| format!("{}: left by a call that was interrupted: removed", path.display()))
        .collect()
}

/// Prints what happened; programs are told of errors on standard output too.
fn reported(
    common: &Common,
    perform: impl FnOnce() -> Result<Report, InstallError>,
) -> Result<(), InstallError> {
    match perform() {
        Ok(report) => Ok(report.print(common.json)?),
        Err(error) => {
            if common.json {
                report::print_error(&error)?;
            }
            Err(error)
        }
    }
}

impl Content {
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}
