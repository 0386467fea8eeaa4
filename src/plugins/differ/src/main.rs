//! An NRI plugin that logs what other plugins change: it registers at several indices and compares
//! the pods and containers that it receives there, as the plugin `differ` of containerd/nri does.

mod chain;
mod difference;
mod form;
mod indices;
mod plugin;

use chain::Chain;
use form::Form;
use indices::Indices;
use nri_plugin::{DEFAULT_SOCKETS, Stub, StubError, flags::parse};
use plugin::Differ;
use std::{
    env,
    error::Error,
    io::{Write, stderr},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};
use tokio::task::JoinSet;

/// NRI plugin that logs what other plugins change.
#[derive(clap::Parser)]
#[command(name = "differ", version)]
struct CommandLine {
    /// Name to register
    #[arg(long, default_value = "differ")]
    name: String,
    /// Comma-separated list of the indices to register at, two or more: with 45,50,80, changes of
    /// the plugins between 45 and 50, and between 50 and 80, are logged
    #[arg(long, default_value = "0,99")]
    indices: Indices,
    #[command(flatten)]
    form: Form,
    /// Log to this file instead of stderr
    #[arg(long, value_name = "PATH")]
    log_file: Option<PathBuf>,
    /// Socket of the runtime
    #[arg(long, visible_alias = "socket-path", value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// Error of the program.
#[derive(Debug, thiserror::Error)]
enum DifferError {
    /// A runtime has launched it, with one connection.
    #[error(
        "differ cannot be launched by a runtime, because it needs several connections; run it \
             as a service"
    )]
    Launched,
    /// The log file cannot be opened.
    #[error("failed to open log file {}: {source}", path.display())]
    LogFile {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// The tokio runtime cannot start.
    #[error("cannot start: {0}")]
    Start(std::io::Error),
    /// A session of the plugin ended with an error.
    #[error(transparent)]
    Session(#[from] StubError),
    /// A session of the plugin panicked.
    #[error("a session ended: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// Returns the sockets to try: the environment has the path of one, or the descriptor of a launched
/// plugin. Index and name of the environment are those of a single plugin, and ignored.
fn sockets(line: &CommandLine) -> Result<Vec<PathBuf>, DifferError> {
    match (&line.socket, env::var("NRI_PLUGIN_SOCKET")) {
        (Some(path), _) => Ok(vec![path.clone()]),
        (None, Ok(path)) if path.starts_with('/') => Ok(vec![path.into()]),
        (None, Ok(_)) => Err(DifferError::Launched),
        (None, Err(_)) => Ok(DEFAULT_SOCKETS.map(PathBuf::from).to_vec()),
    }
}

/// Registers at each index, and runs until a signal ends the process.
fn run(line: &CommandLine) -> Result<(), DifferError> {
    nri_plugin::logging::init();
    if let Some(path) = &line.log_file {
        let failed = |source| DifferError::LogFile { path: path.clone(), source };
        nri_plugin::logging::write_to(path).map_err(failed)?;
    }
    let sockets = sockets(line)?;
    let chain = Arc::new(Chain::new(line.indices.len()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(DifferError::Start)?.block_on(async {
        let mut sessions = JoinSet::new();
        for (position, index) in line.indices.iter().enumerate() {
            let plugin = Differ::new(position, index, chain.clone(), line.form.clone());
            let builder = Stub::builder(plugin).name(&line.name).index(index);
            let builder = sockets.iter().fold(builder, |builder, path| builder.socket_path(path));
            sessions.spawn(builder.run());
        }
        while let Some(ended) = sessions.join_next().await {
            ended??;
        }
        Ok(())
    })
}

fn main() -> ExitCode {
    match run(&parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let causes = std::iter::successors(error.source(), |cause| (**cause).source());
            let text = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
            // Nothing is left to report a failure to.
            let _ = writeln!(stderr(), "differ: {text}");
            ExitCode::FAILURE
        }
    }
}
