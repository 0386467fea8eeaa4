//! `nrid`: the resident NRI core. Nobody has to start it: the first wrapper does.

use clap::Parser;
use nri_adaptation::launcher;
use nrid::{activation::Activation, background, log, settings::Settings, start, state_dir};
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

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

fn run(arguments: &Arguments, mut activation: Activation) -> Result<(), Box<dyn std::error::Error>> {
    background::keep_to_ourselves();
    let settings = Settings::load(arguments.config.as_deref(), arguments.state_dir.as_deref())?;
    let log;
    if arguments.stay {
        // The log's place must exist before the log.
        state_dir::make(&settings.state_dir)?;
        log = log::open(&settings, log::Default::File);
        background::settle();
    } else {
        log = log::open(&settings, log::Default::Stderr);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        // Whoever starts us in the background has seen that nobody answers, and systemd has the sockets: the lock's holder is ending.
        let patient = arguments.stay || !activation.sockets.is_empty();
        let patience = if patient { settings.config.start_timeout } else { Duration::ZERO };
        let notify = activation.notify.take();
        let running = match start::start(settings, log, activation, patience).await {
            // systemd began to listen meanwhile: our starter can connect, and the nrid that answers is started by that.
            Err(start::StartError::Answered(_)) if arguments.stay => return Ok(say_ready()?),
            other => other?,
        };
        if arguments.stay {
            say_ready()?;
        }
        if let Some(Err(error)) = notify.map(|notify| notify.ready()) {
            tracing::warn!(%error, "systemd does not hear that we are ready");
        }
        running.serve().await?;
        Ok(())
    })
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
