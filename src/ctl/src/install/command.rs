//! The commands `nrictl install` and `nrictl uninstall`.

use super::{
    containers::RunningContainers,
    engines::{
        self,
        kind::TargetEngine,
        request::{InstallRequest, NriChoice},
    },
    error::InstallError,
    existing,
    install_root::InstallRoot,
    own_config,
    planning::{
        apply::apply,
        manifest::Manifest,
        new_file, own_values,
        plan::InstallPlan,
        report::{self, InstallReport},
        uninstall,
    },
    runtimes,
    version::{self, EngineVersion},
};
use crate::{
    install::editing::error::FileError, nrid_location::NridLocation, rootless::RootlessUser,
};
use clap::Args;
use nri_locate::{CONFIG_ENV, Environment, NridOwner, UserDirs};
use rustix::process::geteuid;
use std::{
    fs::File,
    path::{Path, PathBuf},
};

/// Help text that follows the arguments of both commands.
const EXIT_CODES: &str = "Exit codes: 0 done, or nothing to do; 1 failed, and nothing has changed, \
                          unless the message names files that could not be restored, or says that \
                          standard output failed; 2 wrong command line; 4 refused, and nothing \
                          has changed; 5 needs root, and nothing has changed.\n\
                          No engine is restarted; the command that reloads or restarts the \
                          engine, if one is needed, is printed.";

/// Arguments of both commands.
#[derive(Debug, Args)]
struct CommonArgs {
    /// The engine.
    engine: TargetEngine,
    /// Show what would change, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The engine's configuration file, if it is not the usual one.
    #[arg(long, value_name = "FILE")]
    engine_config: Option<PathBuf>,
    /// Root directory of an operating system image to install into. Paths are as seen inside it,
    /// and no program in it is run.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Configure the rootless engine of this user, in the user's files: podman, docker or nerdctl.
    #[arg(long, conflicts_with = "root")]
    user: bool,
}

/// `nrictl install`
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Install {
    #[command(flatten)]
    common: CommonArgs,
    /// Make the wrapper the engine's default runtime.
    #[arg(long)]
    default: bool,
    /// The engine's name for the wrapper.
    #[arg(long, default_value = runtimes::DEFAULT_NAME)]
    name: String,
    /// Add one more runtime NAME: the wrapper with PATH as the real runtime. The runtime of
    /// `--name` uses the first of runc, crun and youki that the wrapper finds, by default. May be
    /// repeated.
    #[arg(long, value_name = "NAME=PATH", value_parser = parse_runtime)]
    runtime: Vec<(String, PathBuf)>,
    /// The wrapper, if it is neither beside nrictl nor in a usual directory.
    #[arg(long, value_name = "PATH")]
    wrapper: Option<PathBuf>,
    /// Which NRI adjusts the containers, if the engine has its own: `engine`, `ours` (also switches
    /// the engine's off), or `auto` (the engine's while it is on, else ours).
    #[arg(long, value_enum, value_name = "WHO")]
    nri: Option<NriChoice>,
    /// The engine's version, if its program cannot be run.
    #[arg(long, value_name = "X.Y")]
    engine_version: Option<EngineVersion>,
}

/// `nrictl uninstall`
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Uninstall {
    #[command(flatten)]
    common: CommonArgs,
    /// Uninstall although containers that were created with the wrapper run. Depending on the
    /// engine, it can no longer stop, remove or restart them.
    #[arg(long)]
    force: bool,
}

fn parse_runtime(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("not NAME=PATH")?;
    Ok((name.to_owned(), path.into()))
}

impl Install {
    /// Whether the command printed text about the engines of this host, and changed files.
    pub(crate) fn is_reported_for_this_host(&self) -> bool {
        let CommonArgs { dry_run, json, root, user, .. } = &self.common;
        !dry_run && !json && root.is_none() && !user
    }

    /// Runs the command; `own_config` is our configuration file, and `state_dir` the state
    /// directory of `nrid` if the command line names it.
    ///
    /// # Errors
    /// The command is refused or fails. Nothing has changed then, except after
    /// [`InstallError::HalfWritten`] and [`InstallError::Output`].
    pub(crate) fn run(
        &self,
        own_config: Option<&Path>,
        state_dir: Option<&Path>,
    ) -> Result<(), InstallError> {
        let result = self.perform(own_config, state_dir);
        self.common.print_result(result, own_config, state_dir)
    }

    fn perform(
        &self,
        own_config: Option<&Path>,
        state_dir: Option<&Path>,
    ) -> Result<InstallReport, InstallError> {
        let engine = self.common.engine;
        let session = Session::begin(&self.common)?;
        let root = &session.root;
        let usual_config = root.own_config();
        let own_config = own_config.unwrap_or(&usual_config);
        if self.nri.is_some() && !engine.facts().has_nri {
            return Err(InstallError::NoNri { engine: engine.name() });
        }
        if let Some(why) = version::absence(root, engine)
            && session.file.is_none()
            && self.engine_version.is_none()
        {
            return Err(InstallError::Absent { engine: engine.name(), why });
        }
        let wrapper = runtimes::find(root, self.wrapper.as_deref())?;
        let request = InstallRequest {
            root,
            own_config,
            file: session.file.as_deref(),
            version: self.engine_version.or_else(|| version::installed(root, engine)),
            runtimes: runtimes::runtimes(root, &wrapper, &self.name, &self.runtime)?,
            default: self.default,
            nri: self.nri,
        };
        let manifest = Manifest::read(root)?;
        let mut plan = InstallPlan::new(&manifest);
        let leftovers = session.remove_leftovers(engine, &manifest);
        let needs = engines::needs(engine, &request)?;
        for runtime in request.runtimes.iter().filter(|runtime| runtime.real.is_some()) {
            plan.link(root, engine.name(), &runtime.binary, &wrapper)?;
        }
        let own = own_values::target(&request, &manifest, engine.name())?;
        if let Some(bytes) = plan.edit(root, engine.name(), &own)? {
            own_config::parse(own_config, &bytes)?;
            plan.notes.extend(own_values::note(&own));
        }
        for target in &needs.targets {
            plan.edit(root, engine.name(), target)?;
        }
        plan.notes.extend(leftovers);
        plan.finish(root, true)?;
        if let Some(user) = RootlessUser::of_this_process().filter(|_| root.user().is_some()) {
            plan.notes.extend(user.without_cgroups().map(|(text, _)| text));
            plan.notes.push(RootlessUser::limits());
        }
        if self.default {
            let state_dir = find_state_dir(root, own_config, state_dir);
            plan.notes.extend(existing::note(root, engine, &state_dir));
        }
        if own_config != usual_config {
            let (own_config, usual_config) = (own_config.display(), usual_config.display());
            plan.notes.push(format!(
                "engines do not pass {own_config} to the wrapper: it reads {usual_config} unless \
                 {CONFIG_ENV} is in the engine's environment"
            ));
        }
        if !self.common.dry_run {
            apply(root, &plan.steps)?;
        }
        let report = InstallReport::new(root, engine, self.common.dry_run, plan);
        Ok(report.installed(&request, engine, needs))
    }
}

impl Uninstall {
    /// Runs the command; `own_config` is our configuration file, and `state_dir` the state
    /// directory of `nrid` if the command line names it.
    ///
    /// # Errors
    /// The command is refused or fails. Nothing has changed then, except after
    /// [`InstallError::HalfWritten`] and [`InstallError::Output`].
    pub(crate) fn run(
        &self,
        own_config: Option<&Path>,
        state_dir: Option<&Path>,
    ) -> Result<(), InstallError> {
        let result = self.perform(own_config, state_dir);
        self.common.print_result(result, own_config, state_dir)
    }

    fn perform(
        &self,
        own_config: Option<&Path>,
        state_dir: Option<&Path>,
    ) -> Result<InstallReport, InstallError> {
        let engine = self.common.engine;
        let session = Session::begin(&self.common)?;
        let (root, file) = (&session.root, session.file.as_deref());
        let usual_config = root.own_config();
        let own_config = own_config.unwrap_or(&usual_config);
        let manifest = Manifest::read(root)?;
        let leftovers = session.remove_leftovers(engine, &manifest);
        let mut plan = uninstall::plan(root, engine, file, own_config, &manifest)?;
        plan.notes.extend(leftovers);
        if !plan.steps.is_empty() {
            let state_dir = find_state_dir(root, own_config, state_dir);
            let containers = RunningContainers::find(root, engine, &state_dir);
            plan.notes.extend(self.check_unused(containers)?);
        }
        plan.finish(root, false)?;
        if !self.common.dry_run {
            apply(root, &plan.steps)?;
            uninstall::remove_directories(root, &manifest.directories);
        }
        let report = InstallReport::new(root, engine, self.common.dry_run, plan);
        Ok(report.uninstalled(root, engine))
    }

    /// Fails if containers of the wrapper run. With `--force`, returns a note about them instead.
    fn check_unused(
        &self,
        containers: Option<RunningContainers>,
    ) -> Result<Option<String>, InstallError> {
        let Some(containers) = containers else { return Ok(None) };
        let facts = self.common.engine.facts();
        let (engine, effect, remedy) = (facts.name, facts.orphans, facts.remedy);
        if self.force {
            return Ok(Some(format!("{engine} has {containers}; {effect}")));
        }
        Err(InstallError::InUse { engine, containers, effect, remedy })
    }
}

/// Returns the state directory of `nrid`: the one that the command line names, that of the
/// configuration, or the usual one.
fn find_state_dir(root: &InstallRoot, own_config: &Path, named: Option<&Path>) -> PathBuf {
    let own_state_dir = || own_config::read(root, own_config).ok().and_then(|c| c.state_dir);
    let usual = || match root.user() {
        Some(_) => NridOwner::of_this_process(&Environment::of_this_process()).state_dir(),
        None => NridOwner::Host.state_dir(),
    };
    named.map(Path::to_owned).or_else(own_state_dir).unwrap_or_else(usual)
}

impl CommonArgs {
    /// Prints the report, as JSON with `--json`. An error is returned, and with `--json` also
    /// printed. `own_config` and `state_dir` are those of the command line.
    fn print_result(
        &self,
        result: Result<InstallReport, InstallError>,
        own_config: Option<&Path>,
        state_dir: Option<&Path>,
    ) -> Result<(), InstallError> {
        match result {
            Ok(report) if self.root.is_none() => {
                let nrid = NridLocation::find(own_config, state_dir);
                Ok(report.with_nrid(&nrid).print(self.json)?)
            }
            Ok(report) => Ok(report.print(self.json)?),
            Err(error) => {
                if self.json {
                    report::print_error(&error)?;
                }
                Err(error)
            }
        }
    }

    /// Returns the file system, and whose files are installed into.
    fn install_root(&self) -> Result<InstallRoot, InstallError> {
        if !self.user {
            return Ok(InstallRoot::new(self.root.as_deref())?);
        }
        if geteuid().is_root() {
            return Err(InstallError::UserIsRoot);
        }
        if !self.engine.facts().has_user_files {
            return Err(InstallError::NoUserFiles { engine: self.engine.name() });
        }
        let user = UserDirs::of_this_process(&Environment::of_this_process());
        user.map(InstallRoot::of_user).ok_or(InstallError::NoHome)
    }

    /// Returns the absolute path of the engine's file, as the manifest records it.
    fn engine_file(&self) -> Result<Option<PathBuf>, InstallError> {
        let Some(file) = &self.engine_config else { return Ok(None) };
        match &self.root {
            Some(_) if file.is_relative() => Err(InstallError::RelativeInside(file.clone())),
            Some(_) => Ok(Some(file.clone())),
            None => {
                let failed = |source| FileError::Read { path: file.clone(), source };
                Ok(Some(std::path::absolute(file).map_err(failed)?))
            }
        }
    }
}

/// Root and engine file of a running command, and the lock that the command holds.
struct Session {
    root: InstallRoot,
    /// The engine's file, if not the usual one.
    file: Option<PathBuf>,
    /// Lock of `/etc`, or of the user's directory of configurations, against concurrent commands;
    /// `None` in a dry run, or if the directory cannot be locked. In the second case the directory
    /// is missing, or the first write to it fails as well, with the reason.
    lock: Option<File>,
}

impl Session {
    fn begin(common: &CommonArgs) -> Result<Self, InstallError> {
        let root = common.install_root()?;
        let lock = || {
            let dir = root.user().map_or(Path::new("/etc"), |user| &user.config_home);
            let etc = File::open(root.real(dir).ok()?).ok()?;
            rustix::fs::flock(&etc, rustix::fs::FlockOperation::LockExclusive).ok()?;
            Some(etc)
        };
        let lock = if common.dry_run { None } else { lock() };
        Ok(Self { file: common.engine_file()?, lock, root })
    }

    /// Removes temporary files of a killed command. Returns a note for each file.
    fn remove_leftovers(&self, engine: TargetEngine, manifest: &Manifest) -> Vec<String> {
        if self.lock.is_none() {
            return Vec::new();
        }
        // A file that cannot be parsed is skipped: the command reports it as an error later.
        let tables = engines::tables(engine, &self.root, self.file.as_deref()).unwrap_or_default();
        let usual = tables.into_iter().map(|table| table.file);
        let own = [self.root.own_config(), self.root.manifest()];
        let files = manifest.files.keys().cloned().chain(usual).chain(own);
        let removed = new_file::remove_leftovers(&self.root, files);
        let note = |path: &PathBuf| {
            format!("{}: left by a command that was interrupted: removed", path.display())
        };
        removed.iter().map(note).collect()
    }
}
