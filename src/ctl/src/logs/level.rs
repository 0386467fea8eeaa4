//! `nrictl log-level`: shows the level of the log of `nrid`, or changes it while `nrid` runs.

use crate::{error::CtlError, nrid, nrid_location::NridLocation, output::output};
use clap::Args;
use nri_control::{Client, Request, Status};
use nri_values::printable;
use std::io::Write;

/// The arguments of `nrictl log-level`.
#[derive(Args)]
pub(crate) struct LogLevel {
    /// off, error, warn, info, debug or trace, or a list such as `info,nri_wire=debug`. Without it:
    /// print the level.
    #[arg(value_name = "LEVEL")]
    level: Option<String>,
    /// Return to the level of the configuration.
    #[arg(long, conflicts_with = "level")]
    reset: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl LogLevel {
    /// Changes the level, if one is given, and prints the current one.
    ///
    /// # Errors
    /// No `nrid` runs, it is too old, or it does not know the level.
    pub(crate) fn run(&self, nrid: &NridLocation) -> Result<(), CtlError> {
        let client = nrid::connect(nrid)?;
        let client = client.ok_or_else(|| CtlError::NoNrid(nrid.launcher.socket()))?;
        let (mut level, mut configured) = levels(&client)?;
        if self.reset || self.level.is_some() {
            nrid::done(&client, &Request::LogLevel { level: self.level.clone() })?;
            (level, configured) = levels(&client)?;
        }
        let mut out = output();
        if self.json {
            writeln!(out, "{}", serde_json::json!({"level": level, "configured": configured}))?;
        } else if level == configured {
            writeln!(out, "{}", printable(&level))?;
        } else {
            let (level, configured) = (printable(&level), printable(&configured));
            writeln!(out, "{level} (until the next reload; configured: {configured})")?;
        }
        Ok(())
    }
}

/// Returns the current level and that of the configuration.
fn levels(client: &Client) -> Result<(String, String), CtlError> {
    let status = nrid::status(client)?;
    let Status { version, pid, log_level, configured_log_level, .. } = *status;
    let level = log_level.ok_or(CtlError::UnknownRequest { version, pid })?;
    let configured = configured_log_level.unwrap_or_else(|| level.clone());
    Ok((level, configured))
}
