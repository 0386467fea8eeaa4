//! [`apply`]: applies an adjustment to an OCI config, all of it or nothing.

use crate::cdi::apply as cdi;
use crate::context::ApplyContext;
use crate::error::ApplyError;
use crate::fields::{
    annotations, args, cgroups_path, devices, env, hooks, io_priority, memory_policy, mounts,
    namespaces, net_devices, oom_score_adj, rdt, rlimits, scheduler, seccomp, sysctl,
};
use crate::oci_config::OciConfig;
use crate::resources::{blockio, cpu, device_rules, hugepages, memory, pids, rdt_class, unified};
use nri_api::proto::ContainerAdjustment;
use serde_json::Value;

/// Result of applying an adjustment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// Whether the OCI config changed; if not, its file need not be written.
    pub changed: bool,
}

type Group = fn(&mut Value, &ContainerAdjustment, &ApplyContext<'_>) -> Result<(), ApplyError>;

/// All groups of fields, in the order of upstream NRI. The order matters where two groups change
/// one list: CDI edits come after a plugin's environment and before its devices, mounts and RDT
/// settings; the device rules of added devices come before a plugin's own device rules.
const GROUPS: [Group; 26] = [
    annotations::apply,
    env::apply,
    args::apply,
    hooks::apply,
    cdi::apply,
    devices::apply,
    cgroups_path::apply,
    oom_score_adj::apply,
    io_priority::apply,
    scheduler::apply,
    seccomp::apply,
    namespaces::apply,
    sysctl::apply,
    net_devices::apply,
    memory_policy::apply,
    cpu::apply,
    memory::apply,
    hugepages::apply,
    unified::apply,
    pids::apply,
    device_rules::apply,
    blockio::apply,
    rdt_class::apply,
    rdt::apply,
    mounts::apply,
    rlimits::apply,
];

/// Applies an adjustment. On an error the OCI config is unchanged.
///
/// Fields that the adjustment does not name are unchanged, including the order of keys and the text
/// of numbers.
pub fn apply(
    config: &mut OciConfig,
    adjust: &ContainerAdjustment,
    ctx: &ApplyContext<'_>,
) -> Result<Applied, ApplyError> {
    let mut copy = config.value().clone();
    for group in GROUPS {
        group(&mut copy, adjust, ctx)?;
    }
    let changed = copy != *config.value();
    if changed {
        *config.value_mut() = copy;
    }
    Ok(Applied { changed })
}
