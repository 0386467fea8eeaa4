//! Checks of what a user's `nrid` and rootless engines cannot do.

use super::{
    finding::DoctorReport,
    kinds::{ROOTLESS_CGROUPS, ROOTLESS_DELEGATED, ROOTLESS_LIMITS, ROOTLESS_SESSION},
};
use crate::rootless::RootlessUser;

/// Reports the limits of a user; nothing for root.
pub(super) fn limits(report: &mut DoctorReport) {
    let Some(user) = RootlessUser::of_this_process() else { return };
    if let Some((text, advice)) = user.without_cgroups() {
        report.add(ROOTLESS_CGROUPS, text);
        report.advise(advice);
    } else if user.has_controllers() == Some(true) {
        report.add(ROOTLESS_DELEGATED, "cgroup controllers are delegated to this user");
    }
    report.add(ROOTLESS_LIMITS, RootlessUser::limits());
    report
        .advise("The creation of such a container fails; the log of nrid names plugin and field.");
    if let Some(name) = user.ends_with_session() {
        report.add(
            ROOTLESS_SESSION,
            format!("nrid, its plugins and its records end with the last session of {name}"),
        );
        report.advise("`loginctl enable-linger` keeps the services of the user running.");
    }
}
