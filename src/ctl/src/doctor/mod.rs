//! `nrictl doctor`: checks of the configuration, the programs, the plugin sockets, and for each
//! engine whether its own NRI or ours adapts its containers.

mod engines;
mod finding;
mod installation;
mod plugin_sockets;
mod running;

pub(crate) use finding::DoctorReport;

use crate::nrid_location::NridLocation;
use nri_control::Status;
use nri_host::running_engines;

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
        (None, Some(status)) => running::running(&mut report, nrid, status),
        (None, None) => running::not_running(&mut report, nrid),
    }
    let engines = running_engines();
    plugin_sockets::sockets(&mut report, nrid, status, &engines);
    engines::plugins(&mut report, nrid, status, &engines);
    for engine in &engines {
        engines::in_charge(&mut report, &nrid.config, engine);
    }
    report
}
