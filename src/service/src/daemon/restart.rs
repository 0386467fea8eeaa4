//! Restarts: on request (`nrictl restart`), and when a caller of another version connects after the
//! program file was replaced. The other program must pass `--check` first; it takes over in this
//! process ([`handover`]). Launched plugins end and are launched again; external plugins lose their
//! connection, as with an engine that restarts.
//!
//! [`handover`]: super::handover

use crate::{
    error::{Error, OperatorError, TakeoverError},
    service::{Ending, Service},
    settings::load::Settings,
};
use nri_trust::Owners;
use std::{path::Path, process::Stdio, sync::Arc, time::Duration};

/// Time limit of `--check`, which reads one file.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

impl Service {
    /// Ends cleanly, and runs `program` in this process; without `program`, the file at the path of
    /// the running program.
    ///
    /// # Errors
    /// The program is missing, other users could replace it, or it does not accept the current
    /// configuration. Then `nrid` continues.
    pub async fn restart(&self, program: Option<&Path>) -> Result<(), Error> {
        let path = match (program, &self.program) {
            (Some(path), _) => path.to_owned(),
            (None, Some(own)) => own.path.clone(),
            (None, None) => return Err(OperatorError::ProgramUnknown.into()),
        };
        if let Err(source) = check(&path, &self.settings()).await {
            let error = Error::from(OperatorError::Takeover { program: path, source });
            let message = error.line("");
            tracing::error!("{message}");
            if let Some(own) = &self.program {
                own.fail_attempt(message);
            }
            return Err(error);
        }
        tracing::info!(program = %path.display(), "restarting");
        self.end(Ending::Restart(path));
        Ok(())
    }

    /// Starts a restart if the program file was replaced; called when a caller has another version.
    /// Returns whether a restart is to be expected.
    pub fn restart_if_replaced(self: &Arc<Self>, version: &str) -> bool {
        let Some(own) = &self.program else { return false };
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

/// Whether a program can take over, with this configuration.
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
