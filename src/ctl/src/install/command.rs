//! The commands `nrictl install` and `nrictl uninstall`.

use super::{
    containers::RunningContainers,
    editing::error::FileError,
    engines::{
        self,
        kind::{EngineVersion, TargetEngine},
        request::{InstallRequest, NriChoice},
    },
    error::InstallError,
    existing,
    install_root::InstallRoot,
    own_config,
    plan::InstallPlan,
    report::{self, InstallReport},
    runtimes, version,
    write::write,
};
use crate::{nrid_location::NridLocation, rootless::RootlessUser};
use clap::Args;
use nri_locate::{CONFIG_ENV, Environment, NridOwner, UserDirs};
use rustix::process::geteuid;
use std::{
    fs::File,
    path::{Path, PathBuf},
};

/// Help text that follows the arguments of both commands.
const EXIT_CODES: &str = "Exit codes: 0 done, or nothing to do; 1 failed, and nothing has changed, \
                          unless the message names files already written, or says that standard \
                          output failed; 2 wrong command line; 4 refused, and nothing has changed; \
                          5 needs root, and nothing has changed.\n\
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
    #[arg(long, value_name = "X.Y", value_parser = version::parse)]
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
    /// [`InstallError::Output`] and [`InstallError::Write`] with written files.
    pub(crate) fn run(
        &self,
        own_config: Option<&Path>,
        state_dir: Option<&Path>,
    ) -> Result<(), InstallError> {
        self.common.run(own_config, state_dir, |session| self.perform(session))
    }

    fn perform(&self, session: &Session<'_>) -> Result<InstallReport, InstallError> {
        let (engine, Session { root, own_config, .. }) = (self.common.engine, session);
        let file = self.common.engine_file()?;
        if self.nri.is_some() && engine.facts().nri.is_none() {
            return Err(InstallError::NoNri { engine: engine.name() });
        }
        if let Some(why) = version::absence(root, engine)
            && file.is_none()
            && self.engine_version.is_none()
        {
            return Err(InstallError::Absent { engine: engine.name(), why });
        }
        let wrapper = runtimes::find(root, self.wrapper.as_deref())?;
        let request = InstallRequest {
            root,
            own_config,
            file: file.as_deref(),
            version: self.engine_version.or_else(|| version::installed(root, engine)),
            runtimes: runtimes::runtimes(root, &wrapper, &self.name, &self.runtime)?,
            default: self.default,
            nri: self.nri,
        };
        let mut plan = InstallPlan::new(root, engine)?;
        for runtime in request.runtimes.iter().filter(|runtime| runtime.real.is_some()) {
            plan.link(&runtime.binary, &wrapper)?;
        }
        plan.configure(&request)?;
        let (nri, usage) = engines::install(&mut plan, &request)?;
        if let Some(user) = RootlessUser::of_this_process().filter(|_| root.user().is_some()) {
            plan.notes.extend(user.without_cgroups().map(|(text, _)| text));
            plan.notes.push(RootlessUser::limits());
        }
        if self.default {
            plan.notes.extend(existing::note(root, engine, &session.state_dir));
        }
        let usual_config = root.own_config();
        if *own_config != usual_config {
            let (own_config, usual_config) = (own_config.display(), usual_config.display());
            plan.notes.push(format!(
                "engines do not pass {own_config} to the wrapper: it reads {usual_config} unless \
                 {CONFIG_ENV} is in the engine's environment"
            ));
        }
        let report = self.common.finish(plan, true)?;
        Ok(report.installed(&request, engine, nri, usage))
    }
}

impl Uninstall {
    /// Runs the command; `own_config` is our configuration file, and `state_dir` the state
    /// directory of `nrid` if the command line names it.
    ///
    /// # Errors
    /// The command is refused or fails. Nothing has changed then, except after
    /// [`InstallError::Output`] and [`InstallError::Write`] with written files.
    pub(crate) fn run(
        &self,
        own_config: Option<&Path>,
        state_dir: Option<&Path>,
    ) -> Result<(), InstallError> {
        self.common.run(own_config, state_dir, |session| self.perform(session))
    }

    fn perform(&self, session: &Session<'_>) -> Result<InstallReport, InstallError> {
        let (engine, Session { root, own_config, state_dir }) = (self.common.engine, session);
        let mut plan = InstallPlan::new(root, engine)?;
        let files = engines::files(engine, root, self.common.engine_file()?.as_deref())?;
        plan.uninstall(&files, own_config)?;
        if plan.changes_files() {
            let containers = RunningContainers::find(root, engine, state_dir);
            plan.notes.extend(self.check_unused(containers)?);
        }
        Ok(self.common.finish(plan, false)?.uninstalled())
    }

    /// Fails if containers of the wrapper run. With `--force`, returns a note about them instead.
    fn check_unused(
        &self,
        containers: Option<RunningContainers>,
    ) -> Result<Option<String>, InstallError> {
        let Some(containers) = containers else { return Ok(None) };
        let facts = self.common.engine.facts();
        let (engine, (effect, remedy)) = (facts.name, facts.orphans);
        if self.force {
            return Ok(Some(format!("{engine} has {containers}; {effect}")));
        }
        Err(InstallError::InUse { engine, containers, effect, remedy })
    }
}

/// What both commands work with.
struct Session<'a> {
    root: &'a InstallRoot,
    own_config: &'a Path,
    /// State directory of `nrid`: the one that the command line names, that of the configuration,
    /// or the usual one.
    state_dir: PathBuf,
}

impl CommonArgs {
    /// Performs a command, and prints its report, as JSON with `--json`. An error is returned, and
    /// with `--json` also printed. `own_config` and `state_dir` are those of the command line.
    fn run(
        &self,
        own_config: Option<&Path>,
        state_dir: Option<&Path>,
        perform: impl FnOnce(&Session<'_>) -> Result<InstallReport, InstallError>,
    ) -> Result<(), InstallError> {
        let result = self.install_root().and_then(|root| {
            let _lock = self.lock(&root);
            let path = own_config.map_or_else(|| root.own_config(), Path::to_owned);
            let configured = || own_config::read(&root, &path).ok().and_then(|c| c.state_dir);
            let usual = || match root.user() {
                Some(_) => NridOwner::of_this_process(&Environment::of_this_process()).state_dir(),
                None => NridOwner::Host.state_dir(),
            };
            let named = state_dir.map(Path::to_owned);
            let state_dir = named.or_else(configured).unwrap_or_else(usual);
            perform(&Session { root: &root, own_config: &path, state_dir })
        });
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
        if !self.engine.has_user_files() {
            return Err(InstallError::NoUserFiles { engine: self.engine.name() });
        }
        let user = UserDirs::of_this_process(&Environment::of_this_process());
        user.map(InstallRoot::of_user).ok_or(InstallError::NoHome)
    }

    /// Returns the absolute path of the engine's file, as the record has it.
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

    /// Locks `/etc`, or the user's directory of configurations, against concurrent commands.
    /// Returns `None` in a dry run, or if the directory cannot be locked: it is missing then, or
    /// the first write to it fails as well, with the reason.
    fn lock(&self, root: &InstallRoot) -> Option<File> {
        let dir = root.user().map_or(Path::new("/etc"), |user| &user.config_home);
        let dir = File::open(root.real(dir).ok().filter(|_| !self.dry_run)?).ok()?;
        rustix::fs::flock(&dir, rustix::fs::FlockOperation::LockExclusive).ok()?;
        Some(dir)
    }

    /// Performs a plan, unless this is a dry run. Returns the report.
    fn finish(
        &self,
        mut plan: InstallPlan<'_>,
        is_install: bool,
    ) -> Result<InstallReport, InstallError> {
        let (root, changes) = (plan.root, plan.finish(is_install));
        if !self.dry_run {
            write(root, &changes)?;
        }
        if !self.dry_run && !is_install {
            // Earlier versions kept copies there of the files that they changed.
            if plan.record.engines.is_empty() && !changes.is_empty() {
                let backups = root.record().with_file_name("backup");
                let _ = root.real(&backups).and_then(std::fs::remove_dir_all);
            }
            for dir in plan.record.directories.iter().rev() {
                // A directory that is not empty is in use by others.
                let _ = root.real(dir).and_then(std::fs::remove_dir);
            }
        }
        Ok(InstallReport::new(root, self.engine, (self.dry_run, is_install), &changes, plan.notes))
    }
}
