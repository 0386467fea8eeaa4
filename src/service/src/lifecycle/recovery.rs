//! Recovery of records when `nrid` starts: containers may have ended since the previous `nrid`, and
//! creations and updates may have been in progress.
//!
//! A record is written before what it announces: a creation before its bundle, an update before the
//! runtime makes it. The host shows the rest. If the wrapper that had its reply still runs, `nrid`
//! waits for its end. A creation whose runtime has no container is undone. An update was made if
//! the cgroups hold the runtime's part of it. Then enforcement is completed.
//!
//! Plugins connect afterwards: they receive no event of what happened before, but a snapshot
//! without the containers that have stopped. The audit log has stops and removals. What the
//! processes do that still run is followed (`run_watch.rs`, `update.rs`, `verb/follow.rs`), and is
//! an event.

use crate::{
    audit::{Audit, line_of},
    cgroup::oom,
    host::process::{ProcessIdentity, zombie_status},
    lifecycle::{
        audit::stop_line,
        missed_start::{may_have_started, waits_at_fifo},
    },
    resources::{enforce::IfNotEffective, manager::ResourceManager, update::ReconciledUpdate},
    state::{
        container::Container,
        followed::{FollowedRuntimes, FollowedVerb},
        pod::{PodKind, PodStatus},
        record::Record,
        registry::Registry,
        status::ContainerStatus,
    },
};
use nri_files::AuditEvent;
use std::{path::Path, sync::Arc, time::Duration};

/// A container that was created or updated while no `nrid` ran: its control groups have not been
/// compared with the resources that plugins set.
#[derive(Debug)]
struct Unchecked {
    container: Arc<Container>,
    update: Option<ReconciledUpdate>,
}

/// Updates the records with what has happened while no `nrid` ran.
pub async fn recover(manager: &ResourceManager, followed: &FollowedRuntimes, state_dir: &Path) {
    let ResourceManager { registry, audit, .. } = manager;
    let (mut unchecked, mut removed) = (Vec::new(), Vec::new());
    set_started(registry, followed, audit).await;
    warn_of_edited_bundles(registry);
    for container in registry.by_age() {
        let mut record = container.record();
        if !container.exists().await {
            if record.status == ContainerStatus::Creating
                && record.caller.is_some_and(ProcessIdentity::is_alive)
            {
                // The wrapper has its reply, and its runtime is still running: `follow_caller`
                // waits for the result.
                continue;
            }
            removed.push(container);
            continue;
        }
        if record
            .pending_update
            .as_ref()
            .is_some_and(|update| !update.caller.is_some_and(ProcessIdentity::is_alive))
        {
            // No task has the lock at the start of `nrid`.
            let lock = container.try_lock_update();
            let update = lock.and_then(|lock| ReconciledUpdate::of(&lock, registry, audit));
            unchecked.push(Unchecked { container: container.clone(), update });
        }
        if record.process_has_ended() {
            if record.status != ContainerStatus::Stopped {
                set_stopped(registry, audit, &container);
            }
            continue;
        }
        // `state` of the runtime is not called for a running container with a known process: one
        // call per container would take longer than wrappers wait for the start of nrid. Nor is it
        // called for a created one that waits for its start, or that a followed runtime starts or
        // deletes.
        let is_up_to_date = record.pid.is_some()
            && match record.status {
                ContainerStatus::Running => true,
                ContainerStatus::Created => {
                    followed.has(&container) || waits_at_fifo(&record).await
                }
                _ => false,
            };
        if record.status != ContainerStatus::Stopped
            && !is_up_to_date
            && let Ok(state) = record.runtime.state(&record.key.id).await
        {
            let old_status = record.status;
            record = registry.change(&container, |r| r.observe(&state));
            if old_status == ContainerStatus::Creating && record.status > old_status {
                unchecked.push(Unchecked { container: container.clone(), update: None });
            }
            if state.status == "stopped" || record.process_has_ended() {
                set_stopped(registry, audit, &container);
            }
        }
    }
    unchecked.iter().for_each(|container| enforce_recovered(manager, container));
    manager.find_updated();
    for container in removed {
        // Later requests of wrappers wait for the start.
        manager.end_creation(&container, Duration::ZERO).await;
        let record = container.record();
        registry.remove_files(state_dir, &record);
        audit.write(line_of(&record, &registry.pods, AuditEvent::Removed));
    }
    for container in registry.all() {
        let record = container.record();
        if record.status != ContainerStatus::Creating {
            manager.keep_updates(&container);
        }
        recover_pod(registry, &record);
    }
    registry.remove_empty_pods();
}

/// Logs how many containers have bundles that an `nrid` without bundles of its own has changed.
fn warn_of_edited_bundles(registry: &Registry) {
    let edited = registry.counts().with_edited_bundle;
    if edited > 0 {
        tracing::warn!(
            containers = edited,
            "containers were created by a version before 0.1.0, which changed the config.json of \
             their bundles: these files keep the changes, also after the deletion"
        );
    }
}

/// Records the containers whose start the previous `nrid` followed, if the runtime has ended since.
/// Such a start is followed only if the container waits at the runtime's FIFO: where that is gone,
/// the container was started.
async fn set_started(registry: &Registry, followed: &FollowedRuntimes, audit: &Audit) {
    for (entry, runtime) in followed.all() {
        let Some(container) = registry.by_hook_name(runtime.container()) else {
            followed.remove(entry);
            continue;
        };
        if runtime.process.is_alive() {
            continue;
        }
        if runtime.verb == FollowedVerb::Start && may_have_started(&container).await {
            let record = registry.change_if(&container, Record::set_running);
            audit.write(line_of(&record, &registry.pods, AuditEvent::Started));
        }
        followed.remove(entry);
    }
}

fn set_stopped(registry: &Registry, audit: &Audit, container: &Container) {
    let record = container.record();
    let oom_killed = oom::killed(record.cgroup().as_ref());
    let wait_status = record.pid.and_then(|pid| zombie_status(pid, record.start_time));
    let record = registry.change(container, |r| r.set_stopped(wait_status, oom_killed));
    audit.write(stop_line(&record, registry));
}

/// Derives the status of a pod from one of its containers: the pod's record may be older than the
/// container's, and a pod stops with its only container or with its sandbox.
fn recover_pod(registry: &Registry, record: &Record) {
    let Some(pod) = registry.pods.get(&record.pod_id) else { return };
    let stops_with_container = record.sandbox || pod.kind == PodKind::SingleContainer;
    let status = if stops_with_container && record.status == ContainerStatus::Stopped {
        PodStatus::Stopped
    } else if record.sandbox && record.status == ContainerStatus::Running {
        // Plugins are notified of a pod before its sandbox starts.
        PodStatus::Running
    } else {
        return;
    };
    if pod.status < status {
        registry.pods.change(&record.pod_id, |pod| pod.status = status);
    }
}

/// Enforces the effective resources of a container that the previous `nrid` could not check.
fn enforce_recovered(manager: &ResourceManager, Unchecked { container, update }: &Unchecked) {
    if container.status() == ContainerStatus::Created {
        // `RetryAtStart` never returns an error.
        let _ = manager.enforce_created(container, IfNotEffective::RetryAtStart);
    }
    if !container.is_enforcement_pending() {
        manager.enforce_reconciled(container, update.as_ref());
    }
}
