//! Conversion of resources to writes to control files, one module per controller.

mod blkio;
mod cpu;
mod cpuset;
mod devices;
mod hugetlb;
mod memory;
mod pids;
mod unified;
pub(crate) mod weight;

use crate::{dirs::CgroupDirs, plan::Plan};
use serde_json::Value;

/// Converts `resources`, a `linux.resources` of the OCI config, to writes to the cgroups of a
/// container. Runtimes write the entries of `unified` last, so a field whose file has an entry is
/// not written, and not compared.
pub fn plan(resources: &Value, dirs: &CgroupDirs) -> Plan {
    let (mut plan, mut entries) = (Plan::default(), Plan::default());
    for add in
        [cpuset::add, cpu::add, memory::add, pids::add, hugetlb::add, blkio::add, devices::add]
    {
        add(resources, dirs, &mut plan);
    }
    unified::add(resources, dirs, &mut entries);
    plan.writes.retain(|write| !entries.writes.iter().any(|entry| entry.replaces(write)));
    plan.writes.append(&mut entries.writes);
    plan.unsupported.append(&mut entries.unsupported);
    plan
}
