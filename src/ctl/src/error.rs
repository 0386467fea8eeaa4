//! Reasons why a command failed.

use crate::{
    exit_code::{FAILURE, NEEDS_ROOT, NOT_RUNNING, PROBLEM},
    install::InstallError,
    shipped_plugins::ShippedPluginError,
    support::SupportError,
};
use nri_control::{ClientError, LaunchError};
use nri_locate::ConfigFileError;
use std::{
    io,
    path::PathBuf,
    process::{ExitCode, ExitStatus},
};

/// Failure of a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CtlError {
    #[error(transparent)]
    Config(#[from] ConfigFileError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("nrid: {0}")]
    Refused(String),
    #[error("nrid sent a reply of the wrong type; `nrictl restart` replaces it by this release")]
    UnexpectedReply,
    #[error(
        "nrid is not running (socket {0}), so its containers are unknown; `nrictl start` starts it"
    )]
    NotRunning(PathBuf),
    #[error(
        "nrid (pid {pid}) runs, but does not listen on {}; `nrictl restart` replaces it",
        .socket.display()
    )]
    NotListening { pid: i32, socket: PathBuf },
    #[error(
        "{holder} has locked {} and is no nrid of this host: end that process",
        .lock.display()
    )]
    LockedByOther { holder: String, lock: PathBuf },
    #[error("nrid is not running (socket {0}); `nrictl start` starts it")]
    NoNrid(PathBuf),
    #[error("no nrid serves {0}")]
    NotServing(PathBuf),
    #[error("nrid does not answer on {0}: {1}")]
    NotReady(PathBuf, #[source] std::io::Error),
    #[error(
        "nrid {version} (pid {pid}) is older than this nrictl ({}) and does not know the request; \
         `nrictl restart` replaces it by the installed release",
        env!("CARGO_PKG_VERSION")
    )]
    UnknownRequest { version: String, pid: u32 },
    #[error(
        "standard input and output are not a terminal, which `nrictl top` needs; \
         `nrictl top --once` prints one table"
    )]
    NoTerminal,
    #[error(
        "nrictl top runs in the background, where it cannot have the terminal; \
         `nrictl top --once` prints one table, and `timeout --foreground` leaves it in the \
         foreground"
    )]
    Background,
    #[error(
        "no log at {0}; under systemd, `journalctl -t {ID}` has it",
        ID = crate::logs::IDENTIFIER
    )]
    NoLog(PathBuf),
    #[error("log {0}: {1}")]
    Log(PathBuf, #[source] std::io::Error),
    #[error("nrid does not write its log to a file, and journalctl cannot be run: {0}")]
    Journal(#[source] std::io::Error),
    #[error("journalctl failed: {0}")]
    JournalFailed(std::process::ExitStatus),
    #[error("{0}: run nrictl as root")]
    NeedsRoot(String),
    #[error("cannot end nrid (pid {0}): {1}")]
    Signal(i32, #[source] std::io::Error),
    #[error("nrid did not stop in time")]
    NotStopped,
    #[error("the restart failed, and the previous nrid keeps running: {0}")]
    NotRestarted(String),
    #[error(
        "nrid has ended: the start of its next program failed: {why}; correct that, then \
         `nrictl start`: until then no container can be created"
    )]
    EndedAtRestart { why: String },
    #[error(transparent)]
    Install(#[from] InstallError),
    #[error(
        "{}: `--validate` failed ({status}{}{error}); is it of this release?",
        program.display(),
        if error.is_empty() { "" } else { ": " }
    )]
    NotValidated { program: PathBuf, status: ExitStatus, error: String },
    #[error("{}: does not know `--dry-run`; is it of this release?", .0.display())]
    NoDryRun(PathBuf),
    #[error("dry run: {0}")]
    DryRun(String),
    #[error("man pages: {0}")]
    ManPages(#[source] std::io::Error),
    #[error("support bundle: {0}")]
    Support(#[from] SupportError),
    #[error("audit log {}: {source}", .path.display())]
    AuditLog { path: PathBuf, source: std::io::Error },
    #[error(
        "there is no audit log {}: nrid writes it unless the configuration has `enable = false` \
         in [audit], or nrid is older than nrictl",
        .0.display()
    )]
    NoAuditLog(PathBuf),
    #[error(
        "the audit log has no container {0:?}: it was not created with nri-container-runtime, or \
         its lines were rotated out"
    )]
    NoHistory(String),
    #[error("{text}")]
    NotOfNrid { text: String, error: Box<Self> },
    #[error("several containers begin with {wanted:?}: {}", .ids.join(", "))]
    Ambiguous { wanted: String, ids: Vec<String> },
    #[error(transparent)]
    ShippedPlugin(#[from] ShippedPluginError),
    #[error("standard output: {0}")]
    Output(#[from] std::io::Error),
}

impl CtlError {
    /// Returns the exit code.
    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Self::Install(error) => error.code(),
            Self::NotOfNrid { error, .. } => error.code(),
            Self::NotRunning(_) | Self::NoNrid(_) | Self::NotServing(_) => {
                ExitCode::from(NOT_RUNNING)
            }
            Self::ShippedPlugin(ShippedPluginError::Io { error, .. })
                if error.kind() == io::ErrorKind::PermissionDenied =>
            {
                ExitCode::from(NEEDS_ROOT)
            }
            Self::ShippedPlugin(_) => ExitCode::from(PROBLEM),
            Self::NeedsRoot(_) | Self::Support(SupportError::NeedsRoot) => {
                ExitCode::from(NEEDS_ROOT)
            }
            _ => ExitCode::from(FAILURE),
        }
    }
}
