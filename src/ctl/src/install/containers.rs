//! Running containers of an engine that were created with the wrapper. `uninstall` refuses while
//! there are any: the engine would no longer know their runtime.
//!
//! The containers are found in the records of `nrid`, whether it runs or not. A record counts only
//! while a process with the recorded id and start time exists; otherwise the container has ended.

use super::{engines::kind::TargetEngine, install_root::InstallRoot};
use crate::units::counted;
use nri_control::{RECORDS_DIR, printable};
use serde::Deserialize;
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// Directory with a directory for each user who has logged in.
const USER_DIRS: &str = "/run/user";
/// Name of the state directory in each directory of [`USER_DIRS`].
const USER_STATE_DIR: &str = "nri-container-runtime";
/// Limit of the containers that a message names: a longer list would hide the rest of the message.
const MAX_NAMED: usize = 5;

/// The part of a container's record that is needed here.
#[derive(Debug, Deserialize)]
struct ContainerEntry {
    key: EntryKey,
    #[serde(rename = "maker", default)]
    engine: EntryEngine,
    #[serde(default)]
    container: EntryContainer,
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

/// Running containers as messages show them: by name and id, or by id alone.
#[derive(Debug)]
pub(crate) struct RunningContainers(Vec<String>);

impl RunningContainers {
    /// Finds the containers of an engine in the records of `state_dir` and, for an installation of
    /// the system, in those of users; `None` if none runs.
    pub(super) fn find(root: &InstallRoot, engine: TargetEngine, state_dir: &Path) -> Option<Self> {
        let users = root.real(Path::new(USER_DIRS)).and_then(std::fs::read_dir);
        let users = users
            .into_iter()
            .filter(|_| root.user().is_none())
            .flatten()
            .flatten()
            .map(|entry| entry.file_name());
        let users = users.map(|user| Path::new(USER_DIRS).join(user).join(USER_STATE_DIR));
        let mut found = Vec::new();
        for dir in [state_dir.to_owned()].into_iter().chain(users) {
            let dir = dir.join(RECORDS_DIR);
            let names = root.list(&dir).into_iter().filter(|name| name.ends_with(".json"));
            for name in names {
                let Some(entry) = ContainerEntry::read(root, &dir.join(name)) else { continue };
                if entry.is_of(engine) && entry.is_running(root) {
                    found.push(entry.to_string());
                }
            }
        }
        found.sort();
        (!found.is_empty()).then_some(Self(found))
    }
}

impl ContainerEntry {
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

    /// Whether the container depends on the engine's configuration. Containers of `ctr` and nerdctl
    /// do not: both take the path of the wrapper at each call.
    fn is_of(&self, engine: TargetEngine) -> bool {
        let is_cri = self.engine.cri.is_some();
        match engine {
            TargetEngine::Containerd => self.engine.name == "containerd" && is_cri,
            TargetEngine::Docker => ["docker", "cri-dockerd"].contains(&&*self.engine.name),
            TargetEngine::Crio => self.engine.name == "cri-o",
            TargetEngine::Podman | TargetEngine::Isulad => self.engine.name == engine.name(),
            TargetEngine::Nerdctl => false,
        }
    }

    /// Whether the first process runs: the host has a process of this id and start time.
    fn is_running(&self, root: &InstallRoot) -> bool {
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

impl fmt::Display for ContainerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Engines show the first 12 characters of an id.
        let id: String = self.key.id.chars().take(12).collect();
        match &*self.container.name {
            "" => f.write_str(&printable(&id)),
            name if *name == self.key.id => f.write_str(&printable(name)),
            name => write!(f, "{} ({})", printable(name), printable(&id)),
        }
    }
}

impl fmt::Display for RunningContainers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(all) = self;
        let named = all.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
        let running = counted(all.len(), "running container");
        write!(f, "{running} of the wrapper: {named}")?;
        match all.len().saturating_sub(MAX_NAMED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
