//! What the plugin wants of containers, as updates, and whether the kernel has it. A runtime does
//! not say whether it has made an update in a reply to an event, so that the same update is
//! requested once more outside of events: the answer names those that have failed. They are
//! repeated, since an update fails while its container is created or its runtime hangs, and shown
//! in the status. Where they have not failed, nothing is written twice: the runtime has those
//! values already.

use crate::{
    allocator::Allocator,
    existing::Known,
    placed::{Assignment, Changes, Placed},
};
use nri_plugin::{Session, SetResources, Update};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// Pause after the first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// What the plugin knows.
pub(crate) struct State {
    pub(crate) allocator: Allocator,
    /// What is not known to have been made.
    pub(crate) unconfirmed: Unconfirmed,
    /// The containers of the allocator, for another policy.
    pub(crate) known: BTreeMap<String, Known>,
}

/// The state, once the plugin is configured.
pub(crate) type Shared = Arc<Mutex<Option<State>>>;

/// Containers of which it is not known whether they have what they should have.
#[derive(Debug, Default)]
pub(crate) struct Unconfirmed {
    /// Their ids, and whether an update has failed.
    containers: BTreeMap<String, bool>,
    /// Whether a task asks for them.
    has_task: bool,
    /// Wakes that task.
    wake: Arc<Notify>,
}

impl Unconfirmed {
    /// Adds the changed containers but one, whose update is not that of the plugin.
    pub(crate) fn add(&mut self, changes: &Changes, except: Option<&str>) {
        for id in changes.keys().filter(|id| Some(id.as_str()) != except) {
            self.containers.entry(id.clone()).or_default();
        }
    }

    /// Adds containers whose update has failed.
    pub(crate) fn add_failed(&mut self, ids: impl IntoIterator<Item = String>) {
        self.containers.extend(ids.into_iter().map(|id| (id, true)));
    }

    /// Whether the last update of a container has failed.
    pub(crate) fn has_failed(&self, id: &str) -> bool {
        self.containers.get(id).copied().unwrap_or_default()
    }
}

impl State {
    /// Returns what the containers should have of which it is not known whether they have it.
    fn wanted(&mut self) -> Changes {
        let containers = self.allocator.containers();
        self.unconfirmed.containers.retain(|id, _| containers.contains_key(id));
        let wanted = |id: &String| Some((id.clone(), containers.get(id)?.assignment()));
        let wanted = self.unconfirmed.containers.keys().filter_map(wanted);
        wanted.filter(|(_, assignment)| *assignment != Assignment::default()).collect()
    }

    /// Takes note of what was requested, and which containers have not got it.
    fn confirm(&mut self, requested: &Changes, failed: &BTreeSet<String>) {
        for (id, requested) in requested {
            if failed.contains(id) {
                self.unconfirmed.containers.insert(id.clone(), true);
                continue;
            }
            let now = self.allocator.containers().get(id).map(Placed::assignment);
            if now.is_none_or(|now| now == *requested) {
                self.unconfirmed.containers.remove(id);
                let changes = self.allocator.confirm(id, &requested.cpus);
                self.unconfirmed.add(&changes, None);
            }
        }
    }
}

/// Sets CPUs and memory nodes that are not empty.
pub(crate) fn set(resources: &mut impl SetResources, assignment: &Assignment) {
    if !assignment.cpus.is_empty() {
        resources.set_cpu_cpus(assignment.cpus.to_string());
    }
    if !assignment.nodes.is_empty() {
        resources.set_cpu_mems(assignment.nodes.to_string());
    }
}

/// Returns updates for all changed containers but one. An update that fails, because its container
/// ends at the same time, does not fail the event.
pub(crate) fn updates(changes: Changes, except: Option<&str>) -> Vec<Update> {
    let others = changes.into_iter().filter(|(id, _)| Some(id.as_str()) != except);
    let update = |(id, assignment): (String, Assignment)| {
        let mut update = Update::new(id);
        set(&mut update, &assignment);
        update.set_ignore_failure(true);
        update
    };
    others.map(update).collect()
}

/// Finds out in the background which updates have failed. The runtime may wait for the reply to an
/// event before it makes a request.
pub(crate) fn start(shared: &Shared, session: &Session) {
    let mut state = lock(shared);
    let Some(state) = state.as_mut() else { return };
    let unconfirmed = &mut state.unconfirmed;
    if unconfirmed.containers.is_empty() {
        return;
    }
    if std::mem::replace(&mut unconfirmed.has_task, true) {
        return unconfirmed.wake.notify_one();
    }
    let wake = unconfirmed.wake.clone();
    tokio::spawn(confirm(shared.clone(), wake, session.clone()));
}

async fn confirm(state: Shared, wake: Arc<Notify>, session: Session) {
    let (mut pause, mut retry) = (FIRST_PAUSE, Instant::now());
    loop {
        let is_due = Instant::now() >= retry;
        let wanted = match next(&state, is_due) {
            Next::End => return,
            Next::Wait => {
                // Until then, or until there are others.
                _ = tokio::time::timeout_at(retry, wake.notified()).await;
                continue;
            }
            Next::Request(wanted) => wanted,
        };
        let failed = session.update_containers(updates(wanted.clone(), None), Vec::new()).await;
        let failed: BTreeSet<String> = match failed {
            Ok(failed) => failed.into_iter().map(|update| update.container_id).collect(),
            Err(error) => {
                // The next synchronization, or the next event, asks again.
                tracing::warn!("updates of containers not confirmed: {error}");
                if let Some(state) = lock(&state).as_mut() {
                    state.unconfirmed.has_task = false;
                }
                return;
            }
        };
        if let Some(state) = lock(&state).as_mut() {
            state.confirm(&wanted, &failed);
        }
        if !failed.is_empty() {
            let ids = failed.into_iter().collect::<Vec<_>>().join(", ");
            tracing::warn!("updates have failed, tried again in {pause:?}: containers {ids}");
            // What fails for the first time does not put off what is to be tried again.
            if is_due {
                retry = Instant::now() + pause;
                pause = LONGEST_PAUSE.min(pause * 2);
            } else {
                retry = retry.min(Instant::now() + FIRST_PAUSE);
            }
        } else if is_due {
            pause = FIRST_PAUSE;
        }
    }
}

/// What the task does next.
enum Next {
    Request(Changes),
    Wait,
    End,
}

/// Returns what to do next; what has failed is requested again if that is due.
fn next(state: &Mutex<Option<State>>, is_due: bool) -> Next {
    let mut state = lock(state);
    let Some(state) = state.as_mut() else { return Next::End };
    let mut wanted = state.wanted();
    if wanted.is_empty() {
        state.unconfirmed.containers.clear();
        state.unconfirmed.has_task = false;
        return Next::End;
    }
    wanted.retain(|id, _| is_due || !state.unconfirmed.has_failed(id));
    if wanted.is_empty() { Next::Wait } else { Next::Request(wanted) }
}

fn lock(state: &Mutex<Option<State>>) -> MutexGuard<'_, Option<State>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        hardware::{machine::Machine, snapshot::Snapshot, sysfs},
        request::request,
        status::Status,
        subject::Subject,
    };
    use std::path::Path;

    fn machine() -> Machine {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"));
        let file = file.join("tests/topologies/32-cpus-2-sockets.txt");
        let text = std::fs::read_to_string(file).unwrap();
        sysfs::machine(&text.parse::<Snapshot>().unwrap()).unwrap()
    }

    fn wants(name: &str, cpus: &str) -> Subject {
        let key = crate::request::CPUS_KEY.to_owned();
        let annotations = [(key, cpus.to_owned())].into();
        Subject { name: name.to_owned(), annotations, ..Subject::default() }
    }

    #[test]
    fn what_has_failed_is_shown_and_requested_again_when_that_is_due() {
        let mut allocator = Allocator::new(machine(), "".parse().unwrap()).unwrap();
        let create = |allocator: &mut Allocator, subject: &Subject| {
            let wanted = request(allocator.policy(), subject).unwrap();
            allocator.create(&subject.name, wanted).unwrap()
        };
        for name in ["web", "app"] {
            create(&mut allocator, &Subject { name: name.to_owned(), ..Subject::default() });
        }
        let changes = create(&mut allocator, &wants("db", "2"));
        let mut unconfirmed = Unconfirmed::default();
        unconfirmed.add(&changes, Some("db"));
        let state = State { allocator, unconfirmed, known: BTreeMap::new() };
        let state = Mutex::new(Some(state));
        let ids = |is_due| match next(&state, is_due) {
            Next::Request(wanted) => wanted.into_keys().collect::<Vec<_>>().join(" "),
            Next::Wait => "wait".to_owned(),
            Next::End => "end".to_owned(),
        };
        let confirm = |failed: &[&str]| {
            let Next::Request(wanted) = next(&state, true) else { return };
            let failed = failed.iter().map(|id| (*id).to_owned()).collect();
            lock(&state).as_mut().unwrap().confirm(&wanted, &failed);
        };
        assert_eq!(ids(true), "app web");
        confirm(&["web"]);
        assert_eq!((ids(false), ids(true)), ("wait".to_owned(), "web".to_owned()));
        let table = {
            let state = lock(&state);
            let State { allocator, unconfirmed, .. } = state.as_ref().unwrap();
            Status::of(allocator).with_failed(|id| unconfirmed.has_failed(id))
        };
        let reason = |name: &str| {
            let found = table.containers.iter().find(|container| container.name == name);
            found.and_then(|container| container.reason.clone()).unwrap_or_default()
        };
        assert!(reason("web").contains("an update of its CPUs has failed"), "{}", reason("web"));
        assert_eq!(reason("app"), "");
        confirm(&[]);
        assert_eq!(ids(true), "end");
    }
}
