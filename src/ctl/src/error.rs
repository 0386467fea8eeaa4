//! Reasons why a command failed.

use crate::{
    exit_code::{FAILURE, NEEDS_ROOT, NOT_RUNNING, PROBLEM},
    install::InstallError,
    shipped_plugins::ShippedPluginError,
    support::SupportError,
};
use nri_control::{Ambiguous, ClientError, LaunchError};
use nri_files::LOG_IDENTIFIER;
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
    #[error("nrid does not answer on {socket}: {source}")]
    NotReady {
        /// The control socket.
        socket: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
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
        ID = LOG_IDENTIFIER
    )]
    NoLog(PathBuf),
    #[error("log {path}: {source}")]
    Log {
        /// Path of the log.
        path: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
    #[error("nrid does not write its log to a file, and journalctl cannot be run: {0}")]
    Journal(#[source] std::io::Error),
    #[error("journalctl failed: {0}")]
    JournalFailed(std::process::ExitStatus),
    #[error("{0}: run nrictl as root")]
    NeedsRoot(String),
    #[error("cannot end nrid (pid {pid}): {source}")]
    Signal {
        /// Process id of `nrid`.
        pid: i32,
        /// Cause of the failure.
        source: std::io::Error,
    },
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
    #[error(transparent)]
    Ambiguous(#[from] Ambiguous),
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

#[cfg(test)]
pub(crate) mod tests {
    use std::{fs, iter, path::Path};

    /// Checks that `nrictl` accepts the commands that messages of all programs quote. Words in
    /// capitals and parameters of formats stand for words of the user. Descriptions of the
    /// configuration name commands, and quote none.
    pub(crate) fn check_quoted_commands(nrictl: &clap::Command) {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut found = 0;
        for text in sources(src) {
            for quoted in text.split(concat!("`", "nrictl ")).skip(1) {
                let command = quoted.split('`').next().unwrap_or_default();
                let word = |word: &str| {
                    let is_any = word.contains('{') || word.chars().all(|c| c.is_ascii_uppercase());
                    if is_any { "docker".to_owned() } else { word.to_owned() }
                };
                let words = iter::once("nrictl".to_owned()).chain(command.split(' ').map(word));
                let parsed = nrictl.clone().try_get_matches_from(words);
                assert!(parsed.is_ok(), "nrictl {command}: {parsed:?}");
                found += 1;
            }
        }
        assert!(found > 60, "{found} commands");
    }

    /// The texts of the programs' sources below a directory, without comments and line ends.
    fn sources(dir: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if path.ends_with("tests") || path.ends_with("reference") {
                    continue;
                }
                found.extend(sources(&path));
            } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("reference.rs")
            {
                let text = fs::read_to_string(path).unwrap();
                let lines = text.lines().map(str::trim_start).filter(|l| !l.starts_with("//"));
                found.push(lines.collect::<Vec<_>>().join("\n").replace("\\\n", ""));
            }
        }
        found
    }
}
