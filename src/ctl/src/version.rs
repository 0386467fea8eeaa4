//! `nrictl version`: the versions of `nrictl`, of the `nrid` that runs, and of the real runtime.

use crate::{doctor, error::CtlError, nrid, nrid_location::NridLocation, output::output};
use nri_locate::{Environment, find_runtime};
use nri_values::printable;
use serde_json::json;
use std::io::{self, Write};

/// Prints the versions, as text or as JSON. What is not known is said to be so.
///
/// # Errors
/// Standard output cannot be written to.
pub(crate) fn print(nrid: &NridLocation, as_json: bool) -> io::Result<()> {
    let own = env!("CARGO_PKG_VERSION");
    let status = nrid::status_if_running(nrid);
    let runtime = find_runtime(None, None, &nrid.config.runtime, &Environment::of_this_process());
    let runtime = runtime.map(|path| (doctor::program_version(&path), path));
    let mut out = output();
    if as_json {
        let runtime = runtime.ok().map(|(version, path)| json!({"path": path, "version": version}));
        let nrid = status.ok().flatten().map(|status| status.version);
        return writeln!(out, "{}", json!({"nrictl": own, "nrid": nrid, "runtime": runtime}));
    }
    let nrid = match status {
        Ok(Some(status)) => status.version,
        Ok(None) => "not running".to_owned(),
        Err(error @ CtlError::NeedsRoot(_)) => format!("not known: {error}"),
        Err(error) => error.to_string(),
    };
    let runtime = match runtime {
        Ok((Some(version), path)) => format!("{version} ({})", path.display()),
        Ok((None, path)) => format!("{}, which prints no version", path.display()),
        Err(error) => error.to_string(),
    };
    for (name, version) in [("nrictl", own), ("nrid", &nrid), ("runtime", &runtime)] {
        writeln!(out, "{name:<7}  {}", printable(version))?;
    }
    Ok(())
}
