//! `nrid`: the resident NRI core. Nobody has to start it: the first wrapper does.

use clap::Parser;
use nri_adaptation::launcher;
use nrid::{
    daemon::{
        background,
        log::{self, Log},
        restart::Handover,
        start,
        systemd::{Activation, Notify},
    },
    host::path_probe,
    settings::{load::Settings, state_dir},
};
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// How long what is under way may take to end when another program is to take our place.
const LEFTOVERS: Duration = Duration::from_secs(1);

/// The resident NRI core of nri-container-runtime.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// Detach, print `ready` (or why not) to stdout when it answers, and stay.
    #[arg(long)]
    background: bool,
    /// The second half of --background.
    #[arg(long, hide = true)]
    stay: bool,
    /// Read the configuration, say what is wrong with it or the version of this program, and end.
    #[arg(long)]
    check: bool,
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
    if std::env::args_os().nth(1).is_some_and(|first| first == path_probe::ARGUMENT) {
        return path_probe::run();
    }
    // Before anything else has a descriptor or a thread.
    let activation = Activation::take();
    let arguments = Arguments::parse();
    let done = if arguments.background {
        background::start_second().map_err(Into::into)
    } else {
        activation.map_err(Into::into).and_then(|activation| run(&arguments, activation))
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let error: Box<dyn std::error::Error> = error;
            let line = nri_control::printable(&error.to_string()).into_owned();
            if arguments.background || arguments.stay {
                // Whoever started us waits for a line there.
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
    background::keep_to_ourselves();
    background::hear_signals();
    let mut settings = Settings::load(arguments.config.as_deref(), arguments.state_dir.as_deref())?;
    if arguments.check {
        let file = settings.file.as_ref().map_or("none".into(), |f| f.display().to_string());
        writeln!(std::io::stdout(), "nrid {}, configuration {file}", env!("CARGO_PKG_VERSION"))?;
        return Ok(());
    }
    let log;
    if arguments.stay {
        // The directory must exist before the log.
        state_dir::create(&settings.state_dir)?;
        log = log::open(&settings, log::Default::File);
        background::settle();
    } else {
        log = log::open(&settings, log::Default::Stderr);
    }
    let notify = activation.notify.take();
    let mut starter = Starter { waits: arguments.stay, notify };
    loop {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let ended =
            runtime.block_on(serve(settings.clone(), log.clone(), activation, &mut starter));
        // What is left of this life must not meddle with the next one.
        runtime.shutdown_timeout(LEFTOVERS);
        let Some((handover, program)) = ended? else { return Ok(()) };
        let failed = handover.exec(&program, &settings.state_dir);
        let failed = format!("{}: {failed}", program.display());
        tracing::error!("going on as before, since the other program cannot be run: {failed}");
        activation = handover.keep(failed);
        // As a start would; what was in force is better than nothing.
        settings = settings.load_again().unwrap_or(settings);
    }
}

/// Whoever waits for us to be ready.
struct Starter {
    waits: bool,
    notify: Option<Notify>,
}

/// One life, from the start to a clean end. Returns what goes over to another program, if one is to
/// take our place.
async fn serve(
    settings: Settings,
    log: Log,
    activation: Activation,
    starter: &mut Starter,
) -> Result<Option<(Handover, PathBuf)>, Box<dyn std::error::Error>> {
    // Whoever starts us in the background has seen that nobody answers, and systemd has the
    // sockets: the lock's holder is ending.
    let patient = starter.waits || !activation.sockets.is_empty();
    let patience = if patient { settings.config.start_timeout } else { Duration::ZERO };
    let failure = settings.state_dir.join(nri_control::START_FAILURE);
    let running = match start::start(settings, log, activation, patience).await {
        // systemd began to listen meanwhile: our starter can connect, and the nrid that answers is
        // started by that.
        Err(start::StartError::Answered(_)) if starter.waits => {
            say_ready()?;
            return Ok(None);
        }
        Err(error) => {
            if !matches!(error, start::StartError::Runs(_) | start::StartError::Answered(_)) {
                tracing::error!("not started: {error}");
                // For `nrictl doctor`: our starter may have given up, or be none.
                let _ = std::fs::write(
                    &failure,
                    format!("{}\n", nri_control::printable(&error.to_string())),
                );
            }
            return Err(error.into());
        }
        Ok(running) => running,
    };
    let _ = std::fs::remove_file(&failure);
    if std::mem::take(&mut starter.waits) {
        say_ready()?;
    }
    if let Some(Err(error)) = starter.notify.take().map(|notify| notify.ready()) {
        tracing::warn!(%error, "systemd does not hear that we are ready");
    }
    Ok(running.serve().await?)
}

/// Tells the starter, and lets go of its pipe.
fn say_ready() -> std::io::Result<()> {
    let mut stdout = std::io::stdout();
    // A starter that has given up does not matter to those who come.
    let _ = writeln!(stdout, "{}", nri_control::READY);
    let _ = stdout.flush();
    let null = std::fs::File::options().write(true).open(Path::new("/dev/null"))?;
    Ok(rustix::stdio::dup2_stdout(&null)?)
}
