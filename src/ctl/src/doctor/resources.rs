//! Checks that the cgroups of containers have the values that plugins set, as `nrictl verify` does.
//! Bounded: a check of all containers of a large node would take long.

use super::{
    finding::DoctorReport,
    kinds::{RESOURCES_DIFFER, RESOURCES_EFFECTIVE, RESOURCES_OF_ENGINE, RESOURCES_UNKNOWN},
};
use crate::{
    error::CtlError, nrid, nrid_location::NridLocation, units::counted, views::DescribeClient,
};
use nri_control::{Status, Verified, VerifiedResource};
use std::time::Duration;

/// Limit of containers that are compared, the newest ones: each takes a few reads of cgroup files.
const MAX_CONTAINERS: usize = 200;

/// Limit of findings about containers: the rest is counted.
const MAX_FINDINGS: usize = 10;

/// Time limit of the comparison. An update in progress delays that of its container.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Compares the containers of an `nrid` that runs.
pub(super) fn resources(report: &mut DoctorReport, nrid: &NridLocation, status: &Status) {
    if status.containers == 0 {
        return;
    }
    match verify(nrid, status) {
        Ok(verified) => compared(report, status, &verified),
        Err(error) => {
            report.add(RESOURCES_UNKNOWN, format!("containers were not compared: {error}"));
            report.advise("`nrictl verify` compares them without a time limit.");
        }
    }
}

fn verify(nrid: &NridLocation, status: &Status) -> Result<Vec<Verified>, CtlError> {
    let ids = match status.containers {
        0..=MAX_CONTAINERS => Vec::new(),
        _ => {
            let all = DescribeClient::connect(nrid)?.containers()?;
            all.into_iter().rev().take(MAX_CONTAINERS).map(|container| container.id).collect()
        }
    };
    nrid::verify_within(nrid, &ids, TIMEOUT)
}

fn compared(report: &mut DoctorReport, status: &Status, verified: &[Verified]) {
    let is_of_plugin = |setting: &&VerifiedResource| setting.owner.is_some();
    let (mut differing, mut of_engines) = (Vec::new(), 0);
    for container in verified {
        let differ = || container.settings.iter().filter(|setting| !setting.effective);
        of_engines += usize::from(differ().any(|setting| !is_of_plugin(&setting)));
        let settings: Vec<String> = differ().filter(is_of_plugin).map(describe).collect();
        if !settings.is_empty() {
            differing.push(format!("{}: {}", name(container), settings.join("; ")));
        }
    }
    let shown = differing.len().min(MAX_FINDINGS);
    for text in &differing[..shown] {
        report.add(RESOURCES_DIFFER, text);
        report.advise("`nrictl verify` shows it. An update of the container sets it again.");
    }
    if differing.len() > shown {
        let more = counted(differing.len() - shown, "more container");
        report.add(RESOURCES_DIFFER, format!("{more}: `nrictl verify` shows all"));
    }
    if of_engines > 0 {
        let containers = counted(of_engines, "container");
        report.add(
            RESOURCES_OF_ENGINE,
            format!("{containers}: a cgroup has another value than the engine requested"),
        );
        report.advise("`nrictl verify` shows it. It is between the engine and its runtime.");
    }
    // The process of a container ends at any time, its record a moment later.
    let failed = |container: &&Verified| container.error.is_some() && !container.ended;
    for container in verified.iter().filter(failed).take(MAX_FINDINGS) {
        let why = container.error.as_deref().unwrap_or_default();
        report.add(RESOURCES_UNKNOWN, format!("{}: not compared: {why}", name(container)));
    }
    if differing.is_empty() {
        let containers = counted(verified.len(), "container");
        let of = match status.containers {
            all if all > MAX_CONTAINERS => format!(", the newest of {all}"),
            _ => String::new(),
        };
        report.add(
            RESOURCES_EFFECTIVE,
            format!("{containers}{of}: cgroups have the values that plugins set"),
        );
    }
}

fn name(container: &Verified) -> String {
    let Verified { id, name, .. } = container;
    if name.is_empty() || name == id { id.clone() } else { format!("{name} ({id})") }
}

/// Describes a setting that differs.
fn describe(setting: &VerifiedResource) -> String {
    let VerifiedResource { field, wanted, found, .. } = setting;
    let owner = setting.owner.as_deref().unwrap_or("the engine");
    let found = match found {
        Ok(found) => format!("the cgroup has {found:?}"),
        Err(error) => format!("its file cannot be read: {error}"),
    };
    format!("{field} of {owner} should be {wanted}, {found}")
}
