//! RDT: a class is a directory of resctrl, and its members are in the file `tasks` there.

use crate::{Expect, Setting};
use std::path::Path;

/// The settings that put threads into the class `closid`; without one they go back to the root's.
///
/// A thread that ended meanwhile cannot be written; the kernel answers ESRCH, and the caller leaves
/// it out.
pub fn rdt_settings(resctrl: &Path, closid: Option<&str>, threads: &[i32]) -> Vec<Setting> {
    let dir = closid.map_or_else(|| resctrl.to_owned(), |closid| resctrl.join(closid));
    let setting = |thread: &i32| Setting {
        field: "RDT class".to_owned(),
        files: vec![dir.join("tasks")],
        write: vec![thread.to_string()],
        expect: Expect::Entry(thread.to_string()),
        optional: false,
    };
    threads.iter().map(setting).collect()
}
