//! Finds a disk on which block I/O can be limited.

use std::{fs, os::unix::fs::MetadataExt};

/// Returns the path and the device numbers, as `MAJOR:MINOR`, of the first disk. Returns `None` if
/// there is no disk.
pub(crate) fn device() -> Option<(String, String)> {
    let names =
        fs::read_dir("/sys/block").ok()?.flatten().filter_map(|e| e.file_name().into_string().ok());
    names.map(|name| format!("/dev/{name}")).find_map(|path| {
        let rdev = fs::metadata(&path).ok()?.rdev();
        Some((path, format!("{}:{}", rustix::fs::major(rdev), rustix::fs::minor(rdev))))
    })
}
