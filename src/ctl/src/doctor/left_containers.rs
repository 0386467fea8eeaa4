//! Containers that run while no `nrid` does, by the records in the state directory.

use nri_files::{MAX_RECORD, RECORDS_DIR};
use nri_host::is_alive;
use nri_locate::read_regular_text;
use serde::Deserialize;
use std::{fs, path::Path};

/// The members of a record that say whether the container runs.
#[derive(Deserialize)]
struct RecordedProcess {
    pid: Option<i32>,
    start_time: Option<u64>,
}

/// Returns the number of containers with a record whose first process runs. A record that cannot be
/// read, such as without root, does not count.
pub(super) fn count(state_dir: &Path) -> usize {
    let files = fs::read_dir(state_dir.join(RECORDS_DIR)).into_iter().flatten().flatten();
    let records = files.map(|file| file.path()).filter(|file| {
        // Other files are temporary.
        file.extension().is_some_and(|extension| extension == "json")
    });
    records.filter(|record| runs(record)).count()
}

fn runs(record: &Path) -> bool {
    let Ok(text) = read_regular_text(record, MAX_RECORD) else { return false };
    match serde_json::from_str(&text) {
        Ok(RecordedProcess { pid: Some(pid), start_time: Some(start) }) => is_alive(pid, start),
        _ => false,
    }
}
