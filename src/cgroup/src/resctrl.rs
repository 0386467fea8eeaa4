//! Writes to resctrl that move threads to an RDT class. A class is a directory of resctrl; its file
//! `tasks` lists the threads of the class.

use crate::{effective::EffectiveValue, write::CgroupWrite};
use nri_api::{ResourceField, resource_field};
use std::path::Path;

const CLASS: &ResourceField = resource_field("rdt_class");

/// Returns the writes that move threads to the class `closid`; `None` means the root class.
///
/// The write of a thread that has exited fails with ESRCH.
pub fn resctrl_writes(resctrl: &Path, closid: Option<&str>, threads: &[i32]) -> Vec<CgroupWrite> {
    let dir = closid.map_or_else(|| resctrl.to_owned(), |closid| resctrl.join(closid));
    let write = |thread: &i32| CgroupWrite {
        field: CLASS.name.to_owned(),
        files: vec![dir.join("tasks")],
        texts: vec![thread.to_string()],
        effective: EffectiveValue::Entry(thread.to_string()),
        is_optional: false,
    };
    threads.iter().map(write).collect()
}
