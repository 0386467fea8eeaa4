//! Fields of an adjustment, a file per group: `read` converts the OCI config to NRI, `apply`
//! changes the OCI config. Resources are in [`crate::resources`].

pub(crate) mod annotations;
pub(crate) mod args;
pub(crate) mod devices;
pub(crate) mod env;
pub(crate) mod hooks;
pub(crate) mod io_priority;
mod memory_policy;
pub(crate) mod mounts;
pub(crate) mod namespaces;
pub(crate) mod net_devices;
pub(crate) mod rdt;
pub(crate) mod rlimits;
pub(crate) mod scheduler;
pub(crate) mod seccomp;
pub(crate) mod sysctl;

use crate::cdi::apply as cdi;
use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::set_at;
use crate::resources::{blockio, cpu, device_rules, hugepages, memory, pids, rdt_class, unified};
use nri_api::field_row;
use nri_api::proto::{ContainerAdjustment, Field};
use serde_json::Value;

type Group = fn(&mut Value, &ContainerAdjustment, &ApplyContext<'_>) -> Result<(), ApplyError>;

/// All groups of fields, in the order of upstream NRI. The order matters where two groups change
/// one list: CDI edits come after a plugin's environment and before its devices, mounts and RDT
/// settings; the device rules of added devices come before a plugin's own device rules.
pub(crate) const GROUPS: &[Group] = &[
    annotations::apply,
    env::apply,
    args::apply,
    hooks::apply,
    cdi::apply,
    devices::apply,
    |spec, adjust, _| {
        let path = Some(&*adjust.linux.cgroups_path).filter(|path| !path.is_empty());
        set(spec, Field::CgroupsPath, path)
    },
    |spec, adjust, _| {
        let score = adjust.linux.oom_score_adj.as_ref().map(|score| score.value);
        set(spec, Field::OomScoreAdj, score)
    },
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

/// Sets a field whose value is the same in the OCI config.
fn set(spec: &mut Value, field: Field, value: Option<impl Into<Value>>) -> Result<(), ApplyError> {
    let place = field_row(field).and_then(|row| Some((row.name, row.path.split_last()?)));
    match (value, place) {
        (Some(value), Some((name, (key, parents)))) => {
            set_at(spec, parents, key, value).map_err(in_field(name))
        }
        _ => Ok(()),
    }
}
