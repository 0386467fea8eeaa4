//! Restarts: on request (`nrictl restart`), and when a caller of another version connects after the
//! program file was replaced: once per file, so that two versions of the wrapper do not make it go
//! back and forth. The next program must pass `--check` first, and then replaces the
//! running one in the same process ([`handover`]). Launched plugins end and are launched again;
//! external plugins lose their connection, as when an engine with NRI restarts.
//!
//! [`handover`]: crate::daemon::handover

use crate::{
    control::reload::PLUGIN_DIR_TIMEOUT,
    error::{Error, OperatorError, TakeoverError},
    host::file_access::{self, FileSystem},
    process::{program::RestartError, this_process::Ending},
    service::Service,
    settings::load::Settings,
};
use nri_adaptation::SkipReason;
use nri_trust::Owners;
use std::{path::Path, process::Stdio, sync::Arc, time::Duration};

/// Time limit of `--check`, which reads one file and takes milliseconds.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

impl Service {
    /// Ends cleanly, and runs `program` in this process; without `program`, the file at the path of
    /// the running program.
    ///
    /// # Errors
    /// The program is missing, other users could replace it, it does not accept the current
    /// configuration, a required plugin has refused its own, or a file system hangs. Then `nrid`
    /// continues.
    pub async fn restart(&self, program: Option<&Path>) -> Result<(), Error> {
        let path = match (program, &self.process.program) {
            (Some(path), _) => path.to_owned(),
            (None, Some(own)) => own.path.clone(),
            (None, None) => return Err(OperatorError::ProgramUnknown.into()),
        };
        let checked = match self.check_surroundings().await {
            Ok(()) => check(&path, &self.settings()).await,
            failed => failed,
        };
        if let Err(source) = checked {
            let is_transient =
                matches!(source, TakeoverError::FileSystem(_) | TakeoverError::Plugin { .. });
            let error = Error::from(OperatorError::Takeover { program: path, source });
            let message = error.line("");
            tracing::error!("{message}");
            if let Some(own) = &self.process.program {
                own.fail_attempt(RestartError { message, is_transient });
            }
            return Err(error);
        }
        tracing::info!(program = %path.display(), "restarting");
        self.process.end(Ending::Restart(path));
        Ok(())
    }

    /// Checks what would keep any program from taking over: a file system that hangs while a thread
    /// waits for it, which could keep this process from executing another program, and a required
    /// plugin that refuses its configuration.
    async fn check_surroundings(&self) -> Result<(), TakeoverError> {
        let pending = self.plugins.adaptation.pending_reload(PLUGIN_DIR_TIMEOUT).await;
        let mut hanging = file_access::hanging();
        if matches!(pending, Err(SkipReason::Hangs(_))) {
            hanging.push(FileSystem::Plugins);
        }
        if !hanging.is_empty() {
            return Err(TakeoverError::FileSystem(hanging));
        }
        let pending = pending.unwrap_or_default();
        match self.plugins.adaptation.blocks_a_start(&pending) {
            Some((file, why)) => {
                Err(TakeoverError::Plugin { file: file.to_owned(), why: why.to_owned() })
            }
            None => Ok(()),
        }
    }

    /// Starts a restart if the program file was replaced; called when a caller has another version.
    /// Returns whether a restart is to be expected.
    pub fn restart_if_replaced(self: &Arc<Self>, version: &str) -> bool {
        let Some(own) = &self.process.program else { return false };
        if own.start_attempt() {
            tracing::info!(
                version,
                program = %own.path.display(),
                "restart: the program file was replaced, and a caller has another version"
            );
            let service = self.clone();
            // A failure is logged, and shown by the status.
            tokio::spawn(async move { service.restart(None).await.is_ok() });
            return true;
        }
        own.is_replaced() && own.error().is_none()
    }
}

/// Checks that a program accepts these settings and can replace the running one.
async fn check(path: &Path, settings: &Settings) -> Result<(), TakeoverError> {
    Owners::of_this_process().check(path)?;
    let mut command = tokio::process::Command::new(path);
    command.arg("--check").arg("--state-dir").arg(&settings.state_dir);
    if let Some(config) = settings.named_file() {
        command.arg("--config").arg(config);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = tokio::time::timeout(CHECK_TIMEOUT, command.output()).await;
    let output =
        output.map_err(|_| TakeoverError::Timeout(CHECK_TIMEOUT))?.map_err(TakeoverError::Run)?;
    if output.status.success() && output.stdout.starts_with(b"nrid ") {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let message = message.trim().strip_prefix("nrid: ").unwrap_or(message.trim());
    Err(match message {
        "" => TakeoverError::Failed(output.status),
        message => TakeoverError::Refused(message.to_owned()),
    })
}
