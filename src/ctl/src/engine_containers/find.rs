//! Finds the running containers of engines.

use super::read::ReadContainer;
use crate::install::{InstallRoot, TargetEngine, calls_wrapper, records};
use nri_engine::Map;
use nri_host::{MonitorGroup, MonitoredContainer, monitor_groups};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// The hidden subcommand that reads the containers of a group of monitors.
const READ_CONTAINERS: &str = "read-containers";
/// Time limit of reading the files of one engine: its file system may hang.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// Whether `nri-container-runtime` started a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Wrapper {
    /// Another runtime did.
    No,
    /// It did, without a record of `nrid`: it was bypassed or disabled, the container has opted
    /// out, or the engine's own NRI adapts it.
    PassedThrough,
    /// It did, and `nrid` has a record.
    Yes,
}

/// A running container that is not the sandbox of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EngineContainer {
    pub(crate) id: String,
    /// The id if it has no other name.
    pub(crate) name: String,
    /// Name of the pod; empty if it has none.
    pub(crate) pod_name: String,
    /// Kind of the engine.
    pub(crate) engine: String,
    pub(crate) labels: Map,
    /// Program that the engine calls as the runtime.
    pub(crate) runtime: PathBuf,
    /// Name of the runtime in the engine's configuration; empty if it is not known.
    pub(crate) runtime_name: String,
    pub(crate) pid: Option<i32>,
    pub(crate) wrapper: Wrapper,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct FoundContainers {
    /// Ordered by engine and name.
    pub(crate) containers: Vec<EngineContainer>,
    /// Directories of bundles that were not read in time.
    pub(crate) unread: Vec<PathBuf>,
}

/// Finds the containers of root's engines or, for another user, of this user's. `state_dir` is the
/// state directory of `nrid`.
pub(crate) fn find(state_dir: &Path) -> FoundContainers {
    let (read, unread) = read_all(monitor_groups());
    // A container that was found has its record already, unless it ends meanwhile.
    let records = records(&InstallRoot::of_this_process(), state_dir);
    let known = |found: &MonitoredContainer| {
        records.iter().any(|record| record.is_of_running(&found.id, found.pid))
    };
    let containers = read.into_iter().filter(|read| !read.is_sandbox).filter_map(|read| {
        let found = &read.container;
        let wrapper = if known(found) {
            Wrapper::Yes
        } else if !found.is_running() {
            return None;
        } else if is_wrapper(found) {
            Wrapper::PassedThrough
        } else {
            Wrapper::No
        };
        Some(EngineContainer::new(read, wrapper))
    });
    let mut containers: Vec<_> = containers.collect();
    containers.sort_by(|a, b| (&a.engine, &a.name, &a.id).cmp(&(&b.engine, &b.name, &b.id)));
    FoundContainers { containers, unread }
}

impl EngineContainer {
    fn new(read: ReadContainer, wrapper: Wrapper) -> Self {
        let ReadContainer { container, engine, name, pod_name, runtime_name, labels, .. } = read;
        let MonitoredContainer { id, runtime, pid, .. } = container;
        Self { id, name, pod_name, engine, labels, runtime, runtime_name, pid, wrapper }
    }

    /// Whether the container is of an engine, which then decides on its runtime.
    pub(crate) fn is_of(&self, engine: TargetEngine) -> bool {
        TargetEngine::of_container(&self.engine) == Some(engine) || self.engine == engine.name()
    }
}

/// Whether the engine calls the wrapper.
fn is_wrapper(found: &MonitoredContainer) -> bool {
    let root = InstallRoot::of_process(found.monitor);
    found.runtime.to_str().is_some_and(|path| calls_wrapper(&root, path))
}

/// Reads the containers of all groups at once. Returns them, and the directories of the groups that
/// were not read in time.
fn read_all(groups: Vec<MonitorGroup>) -> (Vec<ReadContainer>, Vec<PathBuf>) {
    let (sender, receiver) = mpsc::channel();
    let mut readers = BTreeMap::new();
    for (number, group) in groups.iter().enumerate() {
        let Some(mut reader) = start_reader(group) else { continue };
        let (output, sender) = (reader.stdout.take(), sender.clone());
        let collect = move || {
            let read = output.and_then(|output| serde_json::from_reader(output).ok());
            // No one receives what is late.
            let _ = sender.send((number, read));
        };
        // Without a thread, the group is late.
        let _ = thread::Builder::new().spawn(collect);
        readers.insert(number, reader);
    }
    drop(sender);
    let deadline = Instant::now() + TIMEOUT;
    let (mut containers, mut unread) = (Vec::new(), groups);
    let mut done = BTreeSet::new();
    while let Ok((number, read)) =
        receiver.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        let Some(read): Option<Vec<ReadContainer>> = read else { continue };
        containers.extend(read);
        done.insert(number);
        // It ends at once.
        let _ = readers.remove(&number).map(|mut reader| reader.wait());
    }
    for reader in readers.values_mut() {
        // It may not end while its file system hangs.
        let _ = reader.kill();
    }
    let mut numbers = 0..;
    unread.retain(|_| numbers.next().is_some_and(|number| !done.contains(&number)));
    (containers, unread.iter().map(|group| group.directory().to_owned()).collect())
}

/// Starts this program to read the containers of a group.
fn start_reader(group: &MonitorGroup) -> Option<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.args([READ_CONTAINERS, &group.id()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()
}
