//! `nrictl`: administration of nri-container-runtime.

mod bypass;
mod doctor;
mod install;
mod output;
mod place;
mod reload;
mod status;
mod verify;

use clap::{Parser, Subcommand};
use nri_control::{Client, ClientError, LaunchError, OsText, Reply, Request};
use nri_locate::ConfigFileError;
use place::Place;
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// How long a clean end may take: nrid waits for verbs, plugins get a grace.
const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// How long a reload may take: plugins end, others are launched, and requests are finished before.
const RELOAD_PATIENCE: Duration = Duration::from_secs(120);
/// How long each half of a restart may take: the end of what is under way and of plugins; the start
/// of the next.
const RESTART_PATIENCE: Duration = Duration::from_secs(60);
/// How long an answer may take. One that is stopped gives none.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// How often `start` tries again where the nrid that it reached went away.
const START_ATTEMPTS: u32 = 50;
/// And how long it waits before.
const START_PAUSE: Duration = Duration::from_millis(20);

/// Administers nri-container-runtime.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// State directory of the nrid that is meant.
    #[arg(long, global = true, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Configuration file.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start nrid if it does not run. Wrappers do so by themselves; external plugins need it
    /// before.
    Start,
    /// End nrid cleanly, its launched plugins with it. Containers and external plugins go on.
    Stop,
    /// Have nrid read its configuration anew, and launch, relaunch and end plugins as it and the
    /// plugin directory say now. Other plugins and all containers stay as they are. A wrong
    /// configuration changes nothing. Exit code 3 if nrid does not run, 4 if a plugin could not be
    /// launched.
    Reload {
        /// For programs.
        #[arg(long)]
        json: bool,
    },
    /// Put the installed nrid in the place of the one that runs, in the same process: what is under
    /// way is finished, callers wait, records and containers stay. Launched plugins are launched
    /// anew, others have to connect again. If it cannot be run, the one that runs goes on. Starts
    /// nrid if it does not run.
    Restart,
    /// Look whether this installation can work, which plugin socket is whose, and who is in charge
    /// of which engine's containers. Exit code 4 if there is a problem.
    Doctor {
        /// For programs.
        #[arg(long)]
        json: bool,
    },
    /// Put the wrapper into an engine's configuration. What was there stays, and `uninstall` brings
    /// it back.
    Install(install::Install),
    /// Take the wrapper out of an engine's configuration.
    Uninstall(install::Uninstall),
    /// Compare what containers are to have with what their control groups hold, file by file, and
    /// say who set it. Exit code 3 if nrid does not run, 4 if something is not in force.
    Verify {
        /// Ids of containers, or beginnings of them. Without any: all that have a process.
        ids: Vec<String>,
        /// For programs.
        #[arg(long)]
        json: bool,
    },
    /// Show nrid, its plugins, and how much it knows. Exit code 3 if it does not run.
    Status {
        /// For programs.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, thiserror::Error)]
enum CtlError {
    #[error(transparent)]
    Config(#[from] ConfigFileError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("nrid: {0}")]
    Refused(String),
    #[error("nrid gave an answer to another question: {0:?}")]
    Answer(Box<Reply>),
    #[error("nrid does not run ({0}): nothing is known of containers; `nrictl start` starts it")]
    NotRunning(PathBuf),
    #[error("nrid did not end in time")]
    StillThere,
    #[error("nrid goes on as it was, since its successor cannot be run: {0}")]
    AsBefore(String),
    #[error(transparent)]
    Install(#[from] install::InstallError),
    #[error("output: {0}")]
    Output(#[from] std::io::Error),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            // Nowhere else to tell.
            let _ = std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("nrictl: {error}\n"),
            );
            match error {
                CtlError::Install(error) => error.code(),
                CtlError::NotRunning(_) => ExitCode::from(3),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode, CtlError> {
    let place = Place::find(arguments.config.as_deref(), arguments.state_dir.as_deref());
    match &arguments.command {
        // It has to say what is wrong with the configuration, too.
        Command::Doctor { json } => doctor(&place, *json),
        // These need neither nrid nor a configuration that can be read.
        Command::Install(install) => {
            install.run(arguments.config.as_deref()).map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
        Command::Uninstall(uninstall) => uninstall
            .run(arguments.config.as_deref())
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into),
        Command::Verify { ids, json } => {
            let place = place.warned();
            let Some(client) = connect(&place)? else {
                return Err(CtlError::NotRunning(place.launcher.socket()));
            };
            let containers = match client.call(&Request::Verify { ids: ids.clone() }, &[])? {
                Reply::Verified(containers) => containers,
                other => return Err(unexpected(other)),
            };
            let fine = verify::print(&containers, *json)?;
            Ok(if fine { ExitCode::SUCCESS } else { ExitCode::from(4) })
        }
        Command::Start => start(&place.checked()?),
        Command::Reload { json } => reload(place, *json),
        Command::Restart => restart(&place.warned()),
        Command::Stop => match connect(&place.warned())? {
            Some(client) => stop(&client),
            None => Ok(ExitCode::SUCCESS),
        },
        Command::Status { json } => {
            let place = place.warned();
            let status = match connect(&place)? {
                Some(client) => Some(ask_status(&client)?),
                None => None,
            };
            status::print(&place, status.as_deref(), *json)?;
            Ok(if status.is_some() { ExitCode::SUCCESS } else { ExitCode::from(3) })
        }
    }
}

fn reload(place: Place, json: bool) -> Result<ExitCode, CtlError> {
    let connected = connect(&place);
    let Ok(Some(client)) = connected else {
        place.warned();
        connected?;
        let text = "nrid does not run: it reads its configuration when it starts\n";
        let text = if json { "{\"running\":false}\n" } else { text };
        std::io::Write::write_all(&mut output::output(), text.as_bytes())?;
        return Ok(ExitCode::from(3));
    };
    client.set_timeout(Some(RELOAD_PATIENCE))?;
    let reply = client.call(&Request::Reload, &[]);
    let problem = place.problem.as_ref().map(ToString::to_string).unwrap_or_default();
    // What is wrong is said once: by nrid, if it reads the same file.
    if !matches!(&reply, Ok(Reply::Refused { message }) if message.contains(&problem)) {
        place.warned();
    }
    let reloaded = match reply? {
        Reply::Reloaded(reloaded) => reloaded,
        other => return Err(unexpected(other)),
    };
    let fine = reload::print(&reloaded, json)?;
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::from(4) })
}

fn restart(place: &Place) -> Result<ExitCode, CtlError> {
    let Some(client) = connect(place)? else { return start(place) };
    let running = ask_status(&client)?.program;
    // Where ours was installed elsewhere meanwhile.
    let gone = running.is_none_or(|program| !program.as_path().exists());
    let program = place.launcher.program.as_deref().filter(|_| gone).map(OsText::from);
    client.set_timeout(Some(RESTART_PATIENCE))?;
    match client.call(&Request::Restart { program }, &[])? {
        Reply::Done => {}
        other => return Err(unexpected(other)),
    }
    if !client.wait_closed() {
        return Err(CtlError::StillThere);
    }
    let client = place.launcher.connect()?;
    client.set_timeout(Some(RESTART_PATIENCE))?;
    let status = ask_status(&client)?;
    match status.restart_error {
        Some(error) => Err(CtlError::AsBefore(error)),
        None => {
            let text = format!("nrid {} (pid {})\n", status.version, status.pid);
            std::io::Write::write_all(&mut output::output(), text.as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn doctor(place: &Place, json: bool) -> Result<ExitCode, CtlError> {
    let asked = connect(place).and_then(|client| client.as_ref().map(ask_status).transpose());
    // Whatever is wrong with the one that runs, the rest is to be looked at.
    let (status, failed) =
        asked.map_or_else(|e| (None, Some(e.to_string())), |status| (status, None));
    let report = doctor::examine(place, status.as_deref(), failed.as_deref());
    report.print(json)?;
    Ok(if report.has_problem() { ExitCode::from(4) } else { ExitCode::SUCCESS })
}

/// The running nrid, if there is one.
fn connect(place: &Place) -> Result<Option<Client>, CtlError> {
    use std::io::ErrorKind::{ConnectionRefused, NotFound};
    match place.launcher.connect() {
        Ok(client) => {
            client.set_timeout(Some(ANSWER_PATIENCE))?;
            Ok(Some(client))
        }
        Err(ClientError::Connect(e)) if matches!(e.kind(), NotFound | ConnectionRefused) => {
            Ok(None)
        }
        Err(e) => Err(e.into()),
    }
}

/// Starts nrid, and hears it answer: one that is just dying may still have a socket.
fn start(place: &Place) -> Result<ExitCode, CtlError> {
    let mut left = START_ATTEMPTS;
    loop {
        left -= 1;
        match ask_status(&place.launcher.connect_or_start()?) {
            Ok(_) => return Ok(ExitCode::SUCCESS),
            Err(CtlError::Client(ClientError::Frame(_))) if left > 0 => {
                std::thread::sleep(START_PAUSE)
            }
            Err(error) => return Err(error),
        }
    }
}

fn ask_status(client: &Client) -> Result<Box<nri_control::Status>, CtlError> {
    match client.call(&Request::Status, &[])? {
        Reply::Status(status) => Ok(status),
        other => Err(unexpected(other)),
    }
}

fn stop(client: &Client) -> Result<ExitCode, CtlError> {
    match client.call(&Request::Stop, &[])? {
        Reply::Done => {}
        other => return Err(unexpected(other)),
    }
    client.set_timeout(Some(STOP_PATIENCE))?;
    if client.wait_closed() { Ok(ExitCode::SUCCESS) } else { Err(CtlError::StillThere) }
}

fn unexpected(reply: Reply) -> CtlError {
    match reply {
        Reply::Refused { message } => CtlError::Refused(message),
        other => CtlError::Answer(Box::new(other)),
    }
}
