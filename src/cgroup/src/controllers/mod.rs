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
/// container.
pub fn plan(resources: &Value, dirs: &CgroupDirs) -> Plan {
    let mut plan = Plan::default();
    for add in [
        cpuset::add,
        cpu::add,
        memory::add,
        pids::add,
        hugetlb::add,
        blkio::add,
        devices::add,
        unified::add,
    ] {
        add(resources, dirs, &mut plan);
    }
    plan
}
