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

use crate::{dirs::CgroupDirs, plan::Plan, write::CgroupWrite};
use serde_json::Value;
use std::collections::HashSet;

/// Converts `resources`, a `linux.resources` of the OCI config, to writes to the cgroups of a
/// container. Runtimes write the entries of `unified` last, so a field whose file has an entry is
/// not written, and not compared. In files with a line for each device, both have their lines.
pub fn plan(resources: &Value, dirs: &CgroupDirs) -> Plan {
    let (mut plan, mut entries) = (Plan::default(), Plan::default());
    for add in
        [cpuset::add, cpu::add, memory::add, pids::add, hugetlb::add, blkio::add, devices::add]
    {
        add(resources, dirs, &mut plan);
    }
    unified::add(resources, dirs, &mut entries);
    // Plugins may set thousands of entries and of device rules.
    let decided: HashSet<_> = entries.writes.iter().flat_map(|entry| &entry.files).collect();
    let is_decided = |write: &CgroupWrite| write.files.iter().any(|file| decided.contains(file));
    plan.writes.retain(|write| !(write.effective.is_whole_file() && is_decided(write)));
    plan.writes.append(&mut entries.writes);
    plan.unsupported.append(&mut entries.unsupported);
    plan
}
