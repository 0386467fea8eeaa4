//! Detection of starts that no verb or hook reported. Such a start comes from a wrapper that could
//! not reach `nrid`, or from a direct call of the runtime.

use crate::{
    host::file_access::{self, FileSystem, LOOKUP_TIMEOUT},
    service::Service,
    state::{container::Container, record::Record, status::ContainerStatus},
};
use std::{io::ErrorKind, sync::Arc};

/// The FIFO in a created container's directory at which its first process waits. runc and crun
/// remove it at the start (`runc: libcontainer/container_linux.go`, `crun: src/libcrun/status.c`).
const START_FIFO: &str = "exec.fifo";

/// Runtimes with this FIFO, by their names.
const FIFO_RUNTIMES: [&str; 2] = ["runc", "crun"];

impl Service {
    /// Reconciles a created container that seems to have been started without a report. Calls the
    /// runtime's `state` only for such a container, because each call starts a process.
    pub(super) async fn notice_start(self: &Arc<Self>, container: &Arc<Container>) {
        // The end of a runtime that is followed shows whether it has started the container.
        if !may_have_started(container).await || self.verbs.followed.has(container) {
            return;
        }
        // If a verb holds the lock, that verb or the next search notices the start.
        let Some(container) = self.try_lock(container) else { return };
        let record = container.record();
        if !may_have_started(&container).await {
            return;
        }
        self.reconcile(&container).await;
        if container.status() > record.status {
            let (container, pod) = (&record.key.id, &record.pod_id);
            tracing::info!(container, pod, "container was started without a verb");
        }
    }
}

/// Whether a created container no longer waits for its start, as far as its runtime shows that.
pub async fn may_have_started(container: &Arc<Container>) -> bool {
    // Most containers run, and need no look-up.
    if !waits_for_start(container) {
        return false;
    }
    let file_system = FileSystem::directory(&container.record().runtime.root());
    let container = container.clone();
    let look_up = move || may_have_started_now(&container);
    file_access::run(file_system, LOOKUP_TIMEOUT, look_up).await.unwrap_or_default()
}

fn waits_for_start(container: &Container) -> bool {
    matches!(container.status(), ContainerStatus::Created | ContainerStatus::Starting)
}

/// Whether the runtime of a container is one whose files show starts.
pub fn shows_starts(record: &Record) -> bool {
    let name = record.runtime.name();
    FIFO_RUNTIMES.iter().any(|known| name.contains(known))
}

/// Whether a created container is known to wait for its start, so that its files will show the
/// start. A program that is only named like runc may not have the FIFO, or have it elsewhere.
pub async fn waits_at_fifo(record: &Record) -> bool {
    let fifo = format!("{}/{START_FIFO}", record.key.id);
    shows_starts(record) && record.runtime.look_up(&fifo).await.unwrap_or_default()
}

/// Whether a created container no longer waits for its start. False for containers of `run`, whose
/// start is reported by our hook. Blocks while the file system of the runtime's root hangs.
pub(super) fn may_have_started_now(container: &Container) -> bool {
    if !waits_for_start(container) {
        return false;
    }
    let record = container.record();
    if record.by_run || !shows_starts(&record) {
        return false;
    }
    let dir = record.runtime.root().join(&record.key.id);
    let fifo = dir.join(START_FIFO).symlink_metadata();
    dir.is_dir() && fifo.is_err_and(|e| e.kind() == ErrorKind::NotFound)
}
