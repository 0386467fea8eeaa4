//! `nrictl doctor`: checks of the configuration, the programs, the state directory, plugins and
//! their sockets, and of each engine that has the wrapper in its files: whether that is effective,
//! and whether its own NRI or ours adapts its containers.
//!
//! `kinds` lists all findings. Checks change nothing, and leave no line in the log of `nrid`.

mod containers;
mod docker;
mod engines;
mod finding;
mod in_charge;
mod installation;
mod kinds;
mod left_containers;
mod plugin_sockets;
mod plugins;
mod program;
mod resources;
mod rootless;
mod running;
mod state_dir;
pub(crate) mod unclean_end;

pub(crate) use finding::DoctorReport;
pub(crate) use program::version as program_version;

use crate::{error::CtlError, exit_code::problem_unless, nrid, nrid_location::NridLocation};
use nri_control::Status;
use nri_host::{listener_unnoticed, running_engines};
use std::process::ExitCode;

/// Runs all checks, and prints their findings.
///
/// # Errors
/// `nrid` refuses this user: most checks would then say what the user cannot see. Standard output
/// cannot be written to.
pub(crate) fn run(nrid: &NridLocation, json: bool) -> Result<ExitCode, CtlError> {
    let status = nrid::status_if_running(nrid);
    if let Err(error @ CtlError::NeedsRoot(_)) = status {
        return Err(error);
    }
    let failure = status.as_ref().err().map(ToString::to_string);
    let status = status.ok().flatten();
    let report = examine(nrid, status.as_deref(), failure.as_deref());
    report.print(json)?;
    Ok(problem_unless(!report.has_problem()))
}

/// Runs all checks. `status` is the reply of `nrid`, if it runs; `failure` is the error if it runs
/// but does not reply.
pub(crate) fn examine(
    nrid: &NridLocation,
    status: Option<&Status>,
    failure: Option<&str>,
) -> DoctorReport {
    let mut report = DoctorReport::default();
    installation::configuration(&mut report, nrid);
    installation::programs(&mut report, nrid);
    match (failure, status) {
        (Some(why), _) => running::unresponsive(&mut report, nrid, why),
        (None, Some(status)) => {
            running::running(&mut report, nrid, status);
            plugins::plugins(&mut report, nrid, status);
            resources::resources(&mut report, nrid, status);
        }
        (None, None) => {
            running::not_running(&mut report, nrid);
            plugins::policies_without_nrid(&mut report, nrid);
        }
    }
    state_dir::state_dir(&mut report, nrid, status);
    rootless::limits(&mut report);
    let engines = running_engines();
    let nrid_pid = match (failure, status) {
        (None, status) => status.and_then(|status| i32::try_from(status.pid).ok()),
        (Some(_), _) => listener_unnoticed(&nrid.launcher.socket(), &[]),
    };
    plugin_sockets::sockets(&mut report, nrid, (status, nrid_pid), &engines);
    in_charge::plugins(&mut report, nrid, status, &engines);
    in_charge::uncalled(&mut report, nrid, status, &engines);
    let installed = engines::engines(&mut report, nrid, &engines);
    for engine in &engines {
        in_charge::containers(
            &mut report,
            &nrid.config,
            engine,
            installed.pids.contains(&engine.pid),
        );
    }
    containers::containers(&mut report, nrid, &installed.defaults, &engines);
    report
}
