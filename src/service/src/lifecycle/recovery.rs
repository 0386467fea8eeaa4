//! What an `nrid` finds that succeeds another: containers that ended meanwhile, creations and
//! updates that were under way.

use crate::{
    bundle::exec_marker,
    lifecycle::{events::restore_document, exit_watch::Process},
    resources::{apply::update_document, cgroups, keeper::Keeper},
    service::Service,
    state::{
        record::{Caller, Phase, Record},
        registry::{Container, Registry},
    },
};
use nri_cgroup::plan;
use nri_spec::changed;
use serde_json::Value;
use std::{
    collections::HashSet,
    path::Path,
    sync::{Arc, atomic::Ordering},
};

/// A container of which nobody has compared the control groups with what plugins set.
#[derive(Debug)]
pub struct Unchecked {
    container: Arc<Container>,
    settled: Settled,
}

/// What an update that was under way leaves to be done.
#[derive(Debug, Default)]
pub struct Settled {
    /// It was made, and plugins wait for that.
    tell: bool,
    /// It was made: the RDT group that threads are to be moved to.
    rdt_group: Option<String>,
    /// It was ours, and not made: what it had to set, part of which may hold.
    tried: Value,
}

/// Brings records up to date with what happened while no `nrid` ran. No plugin is there yet, so
/// nobody is told. Returns the containers that the runtime has created or updated with nobody to
/// look at it.
pub async fn recall(registry: &Registry, dir: &Path) -> Vec<Unchecked> {
    let mut unchecked = Vec::new();
    for container in registry.all() {
        let mut record = container.record();
        if !container.is_there() {
            if record.phase == Phase::Creating && record.caller.is_some_and(Caller::is_alive) {
                // The wrapper has its answer, and its runtime is at work: `follow_caller` sees what
                // becomes of it.
                continue;
            }
            if !registry.shares_document(&record) {
                restore_document(&record);
            }
            exec_marker::forget(dir, &record.key);
            registry.remove(&record.key);
            continue;
        }
        if record
            .pending
            .as_ref()
            .is_some_and(|update| !update.caller.is_some_and(Caller::is_alive))
        {
            let settled = settle_update(registry, &container);
            note_pod_resources(registry, &container.record());
            unchecked.push(Unchecked { container: container.clone(), settled });
        }
        if record.process_is_gone() {
            if record.phase != Phase::Stopped {
                note_stopped(registry, &container);
            }
            continue;
        }
        // A running process whose id is known has nothing new to tell; asking for each would take
        // longer than starters wait.
        let known = record.phase == Phase::Running && record.pid.is_some();
        if record.phase != Phase::Stopped
            && !known
            && let Ok(state) = record.runtime.state(&record.key.id).await
        {
            let was = record.phase;
            record = registry.change(&container, |r| r.note_state(&state));
            if was == Phase::Creating && record.phase > was {
                unchecked
                    .push(Unchecked { container: container.clone(), settled: Settled::default() });
            }
            if state.status == "stopped" || record.process_is_gone() {
                note_stopped(registry, &container);
            }
        }
    }
    for container in registry.all() {
        recall_pod(registry, &container.record());
    }
    registry.remove_empty_pods();
    unchecked
}

fn note_stopped(registry: &Registry, container: &Container) {
    let oom_killed = crate::lifecycle::oom::killed(&container.record());
    registry.change(container, |r| r.note_stopped(None, oom_killed));
}

/// Brings a container's pod up to date with the container: its record may be older, and it stops
/// with its only container, or its sandbox.
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

/// The resources of a sandbox are its pod's.
pub fn note_pod_resources(registry: &Registry, record: &Record) {
    if record.sandbox {
        let resources = record.container.linux.resources.clone();
        registry.change_pod(&record.pod_id, |pod| {
            pod.sandbox.linux.mut_or_insert_default().resources = resources
        });
    }
}

/// Decides whether an update that was under way has been made: by what the control groups hold of
/// the runtime's part. What it cannot set was still to be written by us. The caller has the turn at
/// the container.
pub fn settle_update(registry: &Registry, container: &Container) -> Settled {
    let record = container.record();
    let Some(update) = record.pending.clone() else { return Settled::default() };
    let [before, after] = [&record.in_force, &update.laid.resources];
    let by_runtime = changed(&update_document(before), &update_document(after));
    let is_all_ours = by_runtime.as_object().is_none_or(serde_json::Map::is_empty);
    let made = match (is_all_ours, update.caller) {
        // The runtime had nothing to do.
        (true, Some(_)) => true,
        (true, None) => is_in_force(&record, after, &changed(before, after)),
        (false, _) => is_in_force(&record, after, &by_runtime),
    };
    tracing::info!(container = record.key.id, made, "an update was under way");
    let rdt_group = update.laid.rdt_class.clone().map(|(_, group)| group).filter(|_| made);
    let is_ours = update.caller.is_none();
    let tried = if is_ours && !made { changed(before, after) } else { Value::Null };
    let tell = made && update.told;
    registry.change(container, |r| if made { r.complete(update) } else { r.pending = None });
    Settled { tell, rdt_group, tried }
}

/// Whether the control groups hold a part of these resources; also if none of it can be seen there.
fn is_in_force(record: &Record, resources: &Value, part: &Value) -> bool {
    let Some(place) = cgroups::place(record) else { return true };
    // Of all resources, since what a file holds may depend on several fields.
    let named: HashSet<String> = plan(part, &place).writes.into_iter().map(|s| s.field).collect();
    let mut plan = plan(resources, &place).writes;
    plan.retain(|s| named.contains(&s.field));
    cgroups::compare(&plan).is_empty()
}

impl Keeper {
    /// Compares the control groups with what plugins set, where the `nrid` that was to do so has
    /// ended.
    pub fn catch_up(&self, Unchecked { container, settled }: &Unchecked) {
        let record = container.record();
        if record.phase == Phase::Created
            && self.enforce_strictly(&record, &record.in_force).is_err()
        {
            container.is_amiss.store(true, Ordering::SeqCst);
        } else {
            self.check_settled(container, settled);
        }
    }

    /// The same after an update. The caller has the turn at the container, or nobody else is there
    /// yet.
    pub fn check_settled(&self, container: &Container, settled: &Settled) {
        let record = container.record();
        if record.process_is_gone() {
            return;
        }
        self.enforce_with(&record, &record.in_force, &settled.tried);
        let moved = settled
            .rdt_group
            .as_ref()
            .map_or(Ok(()), |group| self.move_to_rdt_group(&record, group));
        if let Err(error) = moved {
            tracing::error!(container = record.key.id, %error, "not effective");
        }
    }
}

impl Service {
    /// Goes on where an `nrid` ended while a wrapper was updating the container.
    pub fn follow_update(self: &Arc<Self>, container: &Arc<Container>) {
        let Some(caller) = container.record().pending.and_then(|update| update.caller) else {
            return;
        };
        // The pidfd first, then the check that the process is still the same.
        let process = Process::open(caller.pid).filter(|_| caller.is_alive());
        let (service, container) = (self.clone(), container.clone());
        tokio::spawn(async move {
            // The engine's next verb waits here, and plugins' updates for the pending one; nobody
            // else does.
            let _lane = service.lane(&container.key()).await;
            if let Some(process) = process {
                tokio::select! {
                    () = process.ended() => {}
                    // It waits for the lane.
                    () = container.asked_again() => {}
                }
            }
            let _turn = container.setting.lock().await;
            if container.record().pending.is_some() {
                let settled = settle_update(&service.registry, &container);
                service.keeper.check_settled(&container, &settled);
                if settled.tell {
                    // Who was synchronized meanwhile knows the old values.
                    service.tell_settled(&container);
                }
            }
        });
    }
}
