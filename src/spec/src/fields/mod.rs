//! Fields of an adjustment, a file per group: `read` converts the OCI config to NRI, `apply`
//! changes the OCI config. Resources are in [`crate::resources`].

mod annotations;
mod args;
pub(crate) mod devices;
pub(crate) mod env;
pub(crate) mod hooks;
mod io_priority;
mod memory_policy;
pub(crate) mod mounts;
mod namespaces;
pub(crate) mod net_devices;
mod rdt;
mod rlimits;
mod scheduler;
mod seccomp;
mod sysctl;

use crate::cdi::apply as cdi;
use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::set_at;
use crate::json::read::{
    Object, Read, field, field_or_default, integer, message, object, optional, text,
};
use crate::resources::{
    blockio, convert, cpu, device_rules, hugepages, memory, pids, rdt_class, unified,
};
use nri_api::field_row;
use nri_api::proto::{Container, ContainerAdjustment, Field, LinuxContainer};
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

/// Reads the fields of containers that an adjustment can change, too.
pub(crate) fn read(spec: &Object) -> Read<Container> {
    let mut container = Container::new();
    container.annotations = annotations::read(spec)?;
    container.mounts = mounts::read(spec)?;
    container.hooks = hooks::read(spec)?;
    let mut linux = field_or_default(spec, "linux", read_linux)?;
    field(spec, "process", |value| {
        let process = object(value)?;
        container.args = args::read(process)?;
        container.env = env::read(process)?;
        container.rlimits = rlimits::read(process)?;
        linux.oom_score_adj = optional(process, "oomScoreAdj", integer)?;
        linux.io_priority = io_priority::read(process)?;
        linux.scheduler = scheduler::read(process)?;
        Ok(())
    })?;
    container.linux = Some(linux).into();
    Ok(container)
}

fn read_linux(value: &Value) -> Read<LinuxContainer> {
    let fields: &Object = object(value)?;
    let mut linux = LinuxContainer::new();
    linux.namespaces = namespaces::read(fields)?;
    linux.devices = devices::read(fields)?;
    linux.resources = message(fields, "resources", convert::read)?;
    linux.cgroups_path = field_or_default(fields, "cgroupsPath", text)?;
    linux.seccomp_policy = seccomp::read(fields)?;
    linux.sysctl = sysctl::read(fields)?;
    linux.net_devices = net_devices::read(fields)?;
    linux.rdt = rdt::read(fields)?;
    Ok(linux)
}

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
