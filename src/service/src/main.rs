//! `nrid`: the daemon that calls the NRI plugins. The wrapper starts it if none runs.

use clap::Parser;
use nri_adaptation::launcher;
use nri_api::PluginId;
use nri_control::{Inherited, touch_as_child};
use nrid::{
    daemon::{background, handover::Handover, namespaces, start, systemd, validate::validate},
    dry_run::{run, subject::DryRunSubject},
    host::{delegation, descriptors, file_access, path},
    plugins::config::policy_warnings,
    process::{
        activation::{Activation, Notify},
        log::{self, Log},
        program::RestartError,
    },
    settings::{load::Settings, state_dir},
};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// Time given to blocking tasks to end before a restart, since their writes must not overlap with
/// the writes of the next program.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// The daemon of nri-container-runtime, which calls the NRI plugins.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// Detach; print `ready`, or an error, to stdout.
    #[arg(long)]
    background: bool,
    /// Set in the second process that `--background` starts, which becomes the daemon.
    #[arg(long = "stay", hide = true)]
    is_background_process: bool,
    /// Check the configuration, print the version, and exit.
    #[arg(long)]
    check: bool,
    /// Check the configuration and the files that it names, print JSON, and exit.
    #[arg(long, conflicts_with = "check")]
    validate: bool,
    /// Ask plugins what they would change at a creation, print JSON, and exit. For `nrictl
    /// dry-run`.
    #[arg(long, conflicts_with_all = ["check", "validate"])]
    dry_run: bool,
    /// The bundle of a dry run.
    #[arg(long, hide = true, requires = "dry_run", value_name = "DIR")]
    bundle: Option<PathBuf>,
    /// The id of the container that would be created from the bundle.
    #[arg(long, hide = true, requires = "bundle", value_name = "ID")]
    id: Option<String>,
    /// The container of a dry run.
    #[arg(long, hide = true, requires = "dry_run", conflicts_with = "bundle")]
    container: Option<String>,
    /// An external plugin that is connected to nrid.
    #[arg(long, hide = true, requires = "dry_run", value_name = "NN-name")]
    connected: Vec<String>,
    /// Directory of sockets, locks and records.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Configuration file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == launcher::ARGUMENT) {
        return launcher::run(arguments);
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == path::probe::ARGUMENT) {
        return path::lookup::run();
    }
    if touch_as_child() {
        return ExitCode::SUCCESS;
    }
    // Must come before any other descriptor or thread exists.
    let activation = systemd::take();
    let arguments = Arguments::parse();
    let result = if arguments.background {
        background::start_second().map_err(Into::into)
    } else {
        activation.map_err(Into::into).and_then(|activation| run(&arguments, activation))
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let error: Box<dyn std::error::Error> = error;
            let line = nri_values::printable(&error.to_string()).into_owned();
            if arguments.background || arguments.is_background_process {
                // The process that ran `nrid --background`, often a wrapper, reads this line.
                let _ = writeln!(std::io::stdout(), "{line}");
            } else {
                let _ = writeln!(std::io::stderr(), "nrid: {line}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(
    arguments: &Arguments,
    mut activation: Activation,
) -> Result<(), Box<dyn std::error::Error>> {
    if arguments.validate {
        let found = validate(arguments.config.as_deref(), arguments.state_dir.as_deref());
        return Ok(writeln!(io::stdout(), "{}", serde_json::to_string(&found)?)?);
    }
    background::restrict_access();
    background::reset_signals();
    namespaces::check_proc()?;
    if arguments.dry_run {
        return dry_run(arguments);
    }
    let mut inherited = Vec::new();
    if arguments.is_background_process {
        let is_restart = activation.lock.is_some();
        inherited.extend(namespaces::enter_host(arguments.state_dir.as_deref(), is_restart)?);
    }
    let (config, state_dir) = (arguments.config.as_deref(), arguments.state_dir.as_deref());
    let mut settings = if arguments.check {
        Settings::load(config, state_dir)?
    } else {
        Settings::load_for_start(config, state_dir)?
    };
    if arguments.check {
        if let Some(mistake) = settings.mistakes().next() {
            return Err(mistake.into());
        }
        let file = settings.file.as_ref().map_or("none".into(), |f| f.display().to_string());
        writeln!(std::io::stdout(), "nrid {}, configuration {file}", env!("CARGO_PKG_VERSION"))?;
        for missing in settings.missing_paths() {
            writeln!(std::io::stderr(), "nrid: warning: {missing}")?;
        }
        // Not an error: a restart into this program runs this check first, and the program that
        // runs has accepted the configuration.
        for warning in policy_warnings(&settings.config) {
            writeln!(std::io::stderr(), "nrid: warning: {warning}")?;
        }
        return Ok(());
    }
    let log;
    if arguments.is_background_process {
        // The directory must exist before the log.
        state_dir::create(&settings.state_dir)?;
        log = log::open(&settings, log::DefaultLog::File);
        // Sets the limits of process 1, so a limit that was raised before would be lost.
        inherited.extend(background::detach());
        for Inherited { what, effect, .. } in &inherited {
            tracing::warn!(effect, "inherited from the process that started nrid: {what}");
        }
    } else {
        log = log::open(&settings, log::DefaultLog::Stderr);
        if let Err(error) = delegation::use_delegated_cgroup() {
            tracing::warn!(%error, "launched plugins get no cgroups of their own");
        }
    }
    for mistake in settings.mistakes() {
        tracing::error!("{mistake}");
    }
    if let Some(unusable) = settings.unusable_file() {
        tracing::error!("{unusable}");
    }
    // Must come after the reset of inherited limits, and before a second thread exists.
    if let Err(error) = descriptors::raise_limit() {
        tracing::warn!(%error, "cannot raise the soft limit of open files");
    }
    let notify = activation.notify.take();
    let mut report = StartReport { is_awaited: arguments.is_background_process, notify };
    loop {
        activation.inherited.clone_from(&inherited);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let ended = runtime.block_on(serve(settings.clone(), log.clone(), activation, &mut report));
        // A task that still runs could write a file that the next program, or the next iteration of
        // this loop, uses.
        runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        let Some((handover, program)) = ended? else { return Ok(()) };
        let is_transient = file_access::any_in_progress();
        let error = if is_transient {
            io::Error::new(io::ErrorKind::TimedOut, "a file system hangs")
        } else {
            handover.exec(&program, &settings.state_dir)
        };
        let message = format!("{}: {error}", program.display());
        tracing::error!("restart failed, nrid continues with the running program: {message}");
        activation = handover.into_activation(RestartError { message, is_transient });
        // Loaded again, as at a start; the previous configuration stays if that fails.
        settings = settings.load_again().unwrap_or(settings);
    }
}

/// Prints the answer of a dry run.
fn dry_run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let subject = match (&arguments.bundle, &arguments.container) {
        (Some(dir), _) => DryRunSubject::Bundle { dir: dir.clone(), id: arguments.id.clone() },
        (None, Some(container)) => DryRunSubject::Container(container.clone()),
        (None, None) => return Err("--dry-run needs --bundle or --container".into()),
    };
    let connected = arguments.connected.iter().map(|name| PluginId::from_file_name(name));
    let connected = connected.collect::<Result<Vec<_>, _>>()?;
    let settings = Settings::load(arguments.config.as_deref(), arguments.state_dir.as_deref())?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let answered = runtime.block_on(run::dry_run(settings, &subject, &connected));
    // A thread may wait for a file system that hangs.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    Ok(writeln!(io::stdout(), "{}", serde_json::to_string(&answered?)?)?)
}

/// Recipients of the report that `nrid` has started: the process that ran `nrid --background`, and
/// systemd.
struct StartReport {
    /// Whether the process that ran `nrid --background` waits for `ready`, or an error, on our
    /// stdout.
    is_awaited: bool,
    /// systemd's notification socket (`NOTIFY_SOCKET`).
    notify: Option<Notify>,
}

/// Starts the service, and serves until a clean end. For a restart, returns the descriptors and the
/// path of the next program.
async fn serve(
    settings: Settings,
    log: Log,
    activation: Activation,
    report: &mut StartReport,
) -> Result<Option<(Handover, PathBuf)>, Box<dyn std::error::Error>> {
    // A wrapper runs `nrid --background` only if it found no listener, and systemd starts an nrid
    // only if none serves its sockets. In both cases, an nrid that still holds the lock is about to
    // exit: wait for the lock.
    let is_previous_ending = report.is_awaited || !activation.sockets.is_empty();
    let lock_timeout =
        if is_previous_ending { settings.config.start_timeout } else { Duration::ZERO };
    let state_dir = settings.state_dir.clone();
    let failure = state_dir.join(nri_files::START_FAILURE);
    let running = match start::start(settings, log, activation, lock_timeout).await {
        // systemd listens by now: the waiting process can connect, and systemd then starts another
        // nrid.
        Err(start::StartError::SocketInUse(_)) if report.is_awaited => {
            report_ready()?;
            return Ok(None);
        }
        Err(error) => {
            if !matches!(
                error,
                start::StartError::Running(_)
                    | start::StartError::NotListening(..)
                    | start::StartError::SocketInUse(_)
            ) {
                tracing::error!("not started: {error}");
                // `nrictl doctor` shows this file; the process that ran `nrid --background` may not
                // read stdout any more.
                let _ = std::fs::write(
                    &failure,
                    format!("{}\n", nri_values::printable(&error.to_string())),
                );
                nri_files::NridLife::forget(&state_dir);
            }
            return Err(error.into());
        }
        Ok(running) => running,
    };
    let _ = std::fs::remove_file(&failure);
    if std::mem::take(&mut report.is_awaited) {
        report_ready()?;
    }
    if let Some(Err(error)) = report.notify.take().map(|notify| notify.ready()) {
        tracing::warn!(%error, "cannot notify systemd of the start");
    }
    Ok(running.serve().await?)
}

/// Notifies the process that ran `nrid --background`, and closes the pipe to it.
fn report_ready() -> std::io::Result<()> {
    let mut stdout = std::io::stdout();
    // Errors are ignored: the process may have exited after its own timeout.
    let _ = writeln!(stdout, "{}", nri_control::READY);
    let _ = stdout.flush();
    let null = std::fs::File::options().write(true).open(Path::new("/dev/null"))?;
    Ok(rustix::stdio::dup2_stdout(&null)?)
}
