//! What an `nrid` finds that succeeds another: containers that ended meanwhile, creations and updates that were under way.

use crate::{
    cgroups, exec_marker,
    exits::Process,
    life::restore_document,
    record::{Caller, Phase, Record},
    registry::{Container, Registry},
    service::Service,
};
use nri_spec::changed;
use std::{path::Path, sync::Arc};

/// Brings records up to date with what happened while no `nrid` ran. No plugin is there yet, so nobody is told.
pub async fn recall(registry: &Registry, dir: &Path) {
    for container in registry.all() {
        let mut record = container.record();
        if !container.is_there() {
            if record.phase == Phase::Creating && record.caller.is_some_and(Caller::is_alive) {
                // The wrapper has its answer, and its runtime is at work: `follow_caller` sees what becomes of it.
                continue;
            }
            if !registry.shares_document(&record) {
                restore_document(&record);
            }
            exec_marker::forget(dir, &record.key);
            registry.remove(&record.key);
            continue;
        }
        if record.pending.as_ref().is_some_and(|update| !update.caller.is_some_and(Caller::is_alive)) {
            settle_update(registry, &container);
        }
        if record.process_is_gone() {
            if record.phase != Phase::Stopped {
                note_stopped(registry, &container);
            }
            continue;
        }
        // A running process whose id is known has nothing new to tell; asking for each would take longer than starters wait.
        let known = record.phase == Phase::Running && record.pid.is_some();
        if record.phase != Phase::Stopped
            && !known
            && let Ok(state) = record.runtime.state(&record.key.id).await
        {
            record = registry.change(&container, |r| r.note_state(&state));
            if state.status == "stopped" || record.process_is_gone() {
                note_stopped(registry, &container);
            }
        }
    }
    for container in registry.all() {
        recall_pod(registry, &container.record());
    }
    registry.remove_empty_pods();
}

fn note_stopped(registry: &Registry, container: &Container) {
    let oom_killed = container.was_oom_killed();
    registry.change(container, |r| r.note_stopped(None, oom_killed));
}

/// Brings a container's pod up to date with the container: its record may be older, and it stops with its only container, or its sandbox.
fn recall_pod(registry: &Registry, record: &Record) {
    let Some(pod) = registry.pod(&record.pod_id) else { return };
    let holds = record.sandbox || !(pod.real || pod.shared);
    // Plugins hear of a pod before its sandbox starts.
    let runs = record.sandbox && record.phase >= Phase::Running && !pod.told_run;
    let stops = holds && record.phase == Phase::Stopped && !pod.told_stop;
    if runs || stops {
        registry.change_pod(&record.pod_id, |pod| {
            pod.told_run |= runs;
            pod.told_stop |= stops;
        });
    }
}

/// Decides whether an update that was under way has been made: by what the control groups hold. The caller has the turn at the container.
pub fn settle_update(registry: &Registry, container: &Container) {
    let record = container.record();
    let Some(update) = record.pending.clone() else { return };
    let made = is_in_force(&record, &changed(&record.in_force, &update.laid.resources));
    tracing::info!(container = record.key.id, made, "an update was under way");
    registry.change(container, |r| if made { r.complete(update) } else { r.pending = None });
}

/// Whether the control groups hold all of these resources; also if none of them can be seen there.
fn is_in_force(record: &Record, resources: &serde_json::Value) -> bool {
    let place = cgroups::place(record);
    place.is_none_or(|place| cgroups::compare(&nri_cgroup::settings(resources, &place).settings).is_empty())
}

impl Service {
    /// Goes on where an `nrid` ended while a wrapper was updating the container.
    pub fn follow_update(self: &Arc<Self>, container: &Arc<Container>) {
        let Some(caller) = container.record().pending.and_then(|update| update.caller) else { return };
        // The pidfd first, then the check that the process is still the same.
        let process = Process::open(caller.pid).filter(|_| caller.is_alive());
        let (service, container) = (self.clone(), container.clone());
        tokio::spawn(async move {
            // The engine's next verb waits here, and plugins' updates for the pending one; nobody else does.
            let _lane = service.lane(&container.key()).await;
            if let Some(process) = process {
                tokio::select! {
                    () = process.ended() => {}
                    // It waits for the lane.
                    () = container.asked_again() => {}
                }
            }
            let _turn = container.setting.lock().await;
            settle_update(&service.registry, &container);
        });
    }
}
