//! The records of `nrid`, read from its state directory: also while no `nrid` runs.

use super::{engines::kind::TargetEngine, install_root::InstallRoot};
use nri_files::RECORDS_DIR;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The part of a container's record that `nrictl` needs without `nrid`.
#[derive(Debug, Deserialize)]
pub(crate) struct RecordedContainer {
    key: EntryKey,
    #[serde(alias = "maker", default)]
    engine: EntryEngine,
    #[serde(default)]
    container: EntryContainer,
    #[serde(alias = "phase", default)]
    status: String,
    pid: Option<i32>,
    start_time: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct EntryKey {
    id: String,
}

#[derive(Debug, Default, Deserialize)]
struct EntryEngine {
    #[serde(rename = "engine")]
    name: String,
    #[serde(default)]
    cri: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
struct EntryContainer {
    #[serde(default)]
    name: String,
}

/// Returns the records in a state directory.
pub(crate) fn records(root: &InstallRoot, state_dir: &Path) -> Vec<RecordedContainer> {
    let dir = state_dir.join(RECORDS_DIR);
    let files = root.files(&dir, ".json");
    files.iter().filter_map(|file| RecordedContainer::read(root, file)).collect()
}

impl RecordedContainer {
    /// Reads a record. `nrid` truncates the file of a record that it has replaced, and this
    /// function may have opened that file before. So a record that cannot be parsed is read again.
    fn read(root: &InstallRoot, path: &Path) -> Option<Self> {
        // `nrid` rarely replaces one record twice within a few reads.
        const READS: usize = 3;
        let read = || {
            let bytes = root.read(path).ok().flatten().unwrap_or_default();
            serde_json::from_slice(&bytes).ok()
        };
        (0..READS).find_map(|_| read())
    }

    /// Returns the id at the engine.
    pub(crate) fn id(&self) -> &str {
        &self.key.id
    }

    /// Returns the name; empty if there is none.
    pub(crate) fn name(&self) -> &str {
        &self.container.name
    }

    /// Whether this is the record of a container that runs with this id and first process.
    /// Containers of several namespaces of containerd may have the same id. The record of a
    /// container that was started again without the wrapper says that it has ended.
    pub(crate) fn is_of_running(&self, id: &str, pid: Option<i32>) -> bool {
        let is_process = match self.pid {
            None => self.status != "stopped",
            known => known == pid,
        };
        self.key.id == id && is_process
    }

    /// Whether the container depends on the engine's configuration.
    pub(super) fn is_of(&self, engine: TargetEngine) -> bool {
        let has_cri = self.engine.name != "containerd" || self.engine.cri.is_some();
        has_cri && TargetEngine::of_container(&self.engine.name) == Some(engine)
    }

    /// Whether the first process runs: the host has a process of this id and start time.
    pub(super) fn is_running(&self, root: &InstallRoot) -> bool {
        let (Some(pid), Some(start_time)) = (self.pid, self.start_time) else { return false };
        let stat = root.real(Path::new(&format!("/proc/{pid}/stat"))).and_then(std::fs::read);
        let stat = String::from_utf8_lossy(&stat.unwrap_or_default()).into_owned();
        // proc_pid_stat(5): the name of the program, in parentheses, may contain spaces and
        // parentheses. It is followed by the state; the start time is the 19th field after that.
        let Some((_, fields)) = stat.rsplit_once(')') else { return false };
        let mut fields = fields.split_whitespace();
        let is_zombie = fields.next().is_none_or(|state| state == "Z" || state == "X");
        !is_zombie && fields.nth(18).and_then(|time| time.parse().ok()) == Some(start_time)
    }
}
