//! The NRI plugin: events of the runtime to the allocator, its decisions to the runtime.

use crate::{
    account,
    allocator::Allocator,
    classes::{self, Cgroups},
    confirm::{self, Shared, State, Unconfirmed, set, updates},
    existing::{Assigned, Known},
    facts::{
        self, ASSIGNED_CLASS_KEY, ASSIGNED_COUNT_KEY, ASSIGNED_CPUSET_KEY, KIND_KEY, REASON_KEY,
    },
    hardware::{cpuset::CpuSet, snapshot::Snapshot, sysfs},
    placed::{Changes, Kind, Placed},
    policy::Policy,
    request::request,
    socket::StatusSocket,
    status::Status,
    subject::Subject,
};
use nri_plugin::{
    Adjustment, Changes as Updated, Creation, Plugin, Reply, Session, SetResources, Update,
    proto::{Container, LinuxResources, PodSandbox},
};
use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Where the host shows that it has cgroup v2 only.
const CONTROLLERS: &str = "/sys/fs/cgroup/cgroup.controllers";

/// The file of cgroup v2 by which a container takes the CPUs of its cpuset from all others.
const PARTITION: &str = "cpuset.cpus.partition";

/// Its content in containers that do not.
const NO_PARTITION: &str = "member";

/// The plugin.
pub struct Topology {
    devices: PathBuf,
    cgroups: Cgroups,
    state: Shared,
    socket: Mutex<Option<StatusSocket>>,
}

/// Event before the plugin is configured.
#[derive(Debug, thiserror::Error)]
#[error("topology: the runtime has not configured the plugin")]
pub struct NotConfigured;

impl Topology {
    /// Creates the plugin; `devices` is `/sys/devices`.
    pub fn new(devices: PathBuf) -> Self {
        let is_v2 = Path::new(CONTROLLERS).exists();
        Self {
            devices,
            cgroups: if is_v2 { Cgroups::V2 } else { Cgroups::V1 },
            state: Arc::default(),
            socket: Mutex::default(),
        }
    }

    /// Calls a function with the state.
    fn with<T>(&self, call: impl FnOnce(&mut State) -> Reply<T>) -> Reply<T> {
        call(self.state().as_mut().ok_or(NotConfigured)?)
    }

    fn state(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates an allocator without containers.
    fn allocator(&self, policy: &str) -> Reply<Allocator> {
        let policy: Policy = policy.parse()?;
        let machine = sysfs::machine(&Snapshot::read(&self.devices))?;
        for (name, class) in &policy.classes {
            if let Some(why) = classes::without_effect(class, self.cgroups) {
                tracing::warn!("class {name:?}: {why}");
            }
        }
        for warning in account::warnings(&policy) {
            tracing::warn!("{warning}");
        }
        Ok(Allocator::new(machine, policy)?)
    }

    /// Requests changes outside of events. An event meanwhile may change a container once more, so
    /// the request is repeated until it was the last one.
    async fn request(&self, session: &Session, mut changes: Changes) {
        while !changes.is_empty() {
            let updates = updates(changes.clone(), None);
            let failed = match session.update_containers(updates, Vec::new()).await {
                Ok(failed) => failed,
                Err(error) => {
                    // The next synchronization sends them.
                    return tracing::warn!("containers keep the CPUs that they have: {error}");
                }
            };
            let mut state = self.state();
            if let Some(state) = state.as_mut() {
                state.unconfirmed.add_failed(failed.into_iter().map(|update| update.container_id));
            }
            let now = |id: &String| {
                let containers = state.as_ref()?.allocator.containers();
                containers.get(id).map(Placed::assignment)
            };
            changes = changes
                .into_iter()
                .filter_map(|(id, requested)| {
                    let now = now(&id).filter(|now| *now != requested)?;
                    Some((id, now))
                })
                .collect();
        }
    }

    fn serve_status(&self, path: &Path) {
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        if socket.as_ref().is_some_and(|socket| socket.path() == path) {
            return;
        }
        *socket = None;
        if path.as_os_str().is_empty() {
            return;
        }
        let state = self.state.clone();
        let status = move || {
            let state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.as_ref().map(|State { allocator, unconfirmed, .. }| {
                Status::of(allocator).with_failed(|id| unconfirmed.has_failed(id))
            })
        };
        match StatusSocket::open(path, status) {
            Ok(opened) => *socket = Some(opened),
            // Containers come first: the status is only a report.
            Err(error) => tracing::warn!("no status socket {}: {error}", path.display()),
        }
    }
}

impl Plugin for Topology {
    async fn configure(&self, _: &Session, text: &str) -> Reply<()> {
        let allocator = self.allocator(text)?;
        let path = allocator.policy().socket.clone();
        let unconfirmed = Unconfirmed::default();
        *self.state() = Some(State { allocator, unconfirmed, known: BTreeMap::new() });
        self.serve_status(&path);
        Ok(())
    }

    /// Containers keep what they have, as after a restart.
    async fn reconfigure(&self, session: &Session, text: &str) -> Reply<()> {
        let mut allocator = self.allocator(text)?;
        let path = allocator.policy().socket.clone();
        let changes = {
            let mut state = self.state();
            let known = state.as_ref().map(|state| state.known.clone()).unwrap_or_default();
            let has = |id: &String| {
                let placed = state.as_ref()?.allocator.containers().get(id);
                placed.map(Placed::may_have)
            };
            let existing = known.iter().map(|(id, known)| {
                let has = has(id).unwrap_or_default();
                (id.clone(), known.existing(allocator.policy(), has))
            });
            let changes = allocator.synchronize(&existing.collect());
            let unconfirmed = state.take().map(|state| state.unconfirmed).unwrap_or_default();
            *state = Some(State { allocator, unconfirmed, known });
            changes
        };
        self.serve_status(&path);
        self.request(session, changes).await;
        confirm::start(&self.state, session);
        Ok(())
    }

    async fn synchronize(
        &self,
        session: &Session,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Reply<Vec<Update>> {
        let (runtime, name) = (name_of_runtime(session), session.plugin().name.as_str());
        let pods: HashMap<&str, &PodSandbox> =
            pods.iter().map(|pod| (pod.id.as_str(), pod)).collect();
        let updates = self.with(|State { allocator, known, unconfirmed }| {
            let no_pod = PodSandbox::default();
            let mut existing = BTreeMap::new();
            known.clear();
            for container in &containers {
                let pod = pods.get(container.pod_sandbox_id.as_str()).copied().unwrap_or(&no_pod);
                let resources = &container.linux.resources;
                let subject = facts::subject(runtime, pod, container, resources);
                let assigned = facts::assigned(runtime, name, container);
                let has = facts::assignment(resources);
                let created_at = container.created_at;
                let container_known = Known { subject, assigned, created_at };
                let found = container_known.existing(allocator.policy(), has);
                existing.insert(container.id.clone(), found);
                known.insert(container.id.clone(), container_known);
            }
            let changes = allocator.synchronize(&existing);
            for (id, placed) in allocator.containers() {
                if let Some(reason) = &placed.reason {
                    tracing::info!("container {id} shares CPUs: {reason}");
                }
                // From now on, it is known who has what.
                if let Some(known) = known.get_mut(id)
                    && known.assigned.as_ref().is_some_and(|assigned| {
                        let is_replaced = assigned.kind == Kind::Exclusive && !assigned.has_own;
                        !assigned.is_proven || is_replaced
                    })
                {
                    known.assigned = placed.is_seen.then(|| assigned(placed));
                }
            }
            unconfirmed.add(&changes, None);
            Ok(updates(changes, None))
        });
        confirm::start(&self.state, session);
        updates
    }

    async fn create_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Creation> {
        let resources = &container.linux.resources;
        let runtime = name_of_runtime(session);
        let mut subject = facts::subject(runtime, &pod, &container, resources);
        let has = facts::assignment(resources);
        subject.pinned = (!has.cpus.is_empty()).then(|| (has.cpus.clone(), has.nodes));
        let created = self.with(|State { allocator, known, unconfirmed }| {
            let request = request(allocator.policy(), &subject)?;
            let changes = allocator.create(&container.id, request)?;
            let placed = &allocator.containers()[&container.id];
            let mut adjustment = Adjustment::new();
            // Overrides: what a container says here of itself has no meaning.
            adjustment.override_annotation(KIND_KEY, facts::word(placed.kind));
            adjustment.override_annotation(ASSIGNED_CLASS_KEY, &placed.request.class);
            match &placed.request.pinned {
                Some((cpus, _)) if placed.kind == Kind::Pinned => {
                    adjustment.override_annotation(ASSIGNED_CPUSET_KEY, cpus.to_string());
                }
                _ if container.annotations.contains_key(ASSIGNED_CPUSET_KEY) => {
                    adjustment.remove_annotation(ASSIGNED_CPUSET_KEY);
                }
                _ => {}
            }
            match assigned(placed).count {
                Some(count) => {
                    adjustment.override_annotation(ASSIGNED_COUNT_KEY, count.to_string());
                }
                None if container.annotations.contains_key(ASSIGNED_COUNT_KEY) => {
                    adjustment.remove_annotation(ASSIGNED_COUNT_KEY);
                }
                None => {}
            }
            match &placed.reason {
                Some(reason) => {
                    tracing::info!("container {} shares CPUs: {reason}", container.name);
                    adjustment.override_annotation(REASON_KEY, reason);
                }
                None if container.annotations.contains_key(REASON_KEY) => {
                    adjustment.remove_annotation(REASON_KEY);
                }
                None => {}
            }
            let keeps_cpus = placed.kind == Kind::Pinned && placed.cpus == has.cpus;
            if placed.kind != Kind::Unmanaged && !keeps_cpus {
                set(&mut adjustment, &placed.assignment());
            }
            if placed.kind != Kind::Unmanaged {
                let class = &allocator.policy().classes[&placed.request.class];
                classes::set_all(&mut adjustment, class, subject.memory_limit, self.cgroups);
            }
            if is_partition(resources) {
                adjustment.add_unified(PARTITION, NO_PARTITION);
            }
            let subject = Subject { pinned: None, ..subject };
            let (assigned, created_at) = (Some(assigned(placed)), container.created_at);
            known.insert(container.id.clone(), Known { subject, assigned, created_at });
            unconfirmed.add(&changes, Some(&container.id));
            let updates = updates(changes, Some(&container.id));
            Ok(Creation { adjustment, updates, evictions: Vec::new() })
        });
        confirm::start(&self.state, session);
        created
    }

    /// While a container is created, others may have got CPUs of it. It must not run on them.
    async fn start_container(
        &self,
        session: &Session,
        _: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        // Another runtime makes no update before the reply: there, it is repeated afterwards.
        if !facts::is_nrid(name_of_runtime(session)) {
            return Ok(());
        }
        let has = facts::assignment(&container.linux.resources);
        let changes = self.with(|State { allocator, .. }| {
            let placed = allocator.containers().get(&container.id);
            let now = placed.map(Placed::assignment).filter(|now| {
                let is_same = |wanted: &CpuSet, has: &CpuSet| wanted.is_empty() || wanted == has;
                !is_same(&now.cpus, &has.cpus) || !is_same(&now.nodes, &has.nodes)
            });
            Ok(now.map(|now| (container.id.clone(), now)).into_iter().collect::<Changes>())
        })?;
        self.request(session, changes).await;
        confirm::start(&self.state, session);
        Ok(())
    }

    async fn update_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
        resources: LinuxResources,
    ) -> Reply<Updated> {
        let now = merged(&container.linux.resources, &resources);
        let runtime = name_of_runtime(session);
        let subject = facts::subject(runtime, &pod, &container, &now);
        let updated = self.with(|State { allocator, known, unconfirmed }| {
            let changes = allocator.update(&container.id, &subject)?;
            let Some(placed) = allocator.containers().get(&container.id) else {
                return Ok(Updated::default());
            };
            let mut update = Update::new(&container.id);
            let asks_for_cpus = !resources.cpu.cpus.is_empty() || !resources.cpu.mems.is_empty();
            let is_changed =
                asks_for_cpus || changes.contains_key(&container.id) || !placed.kept.is_empty();
            if is_changed && placed.kind != Kind::Unmanaged {
                set(&mut update, &placed.assignment());
            }
            if placed.kind != Kind::Unmanaged && resources.memory.limit.is_some() {
                let class = &allocator.policy().classes[&placed.request.class];
                classes::set_memory(&mut update, class, subject.memory_limit, self.cgroups);
            }
            if is_partition(&resources) {
                update.add_unified(PARTITION, NO_PARTITION);
            }
            if let Some(known) = known.get_mut(&container.id) {
                known.subject = subject;
            }
            // What an exclusive container gives up if the engine's update fails, it keeps.
            let is_own = placed.kind == Kind::Exclusive;
            unconfirmed.add(&changes, is_own.then_some(container.id.as_str()));
            let mut all = updates(changes, Some(&container.id));
            all.push(update);
            Ok(Updated { updates: all, evictions: Vec::new() })
        });
        confirm::start(&self.state, session);
        updated
    }

    /// The update has been made: others get what it has given up.
    async fn post_update_container(
        &self,
        session: &Session,
        _: PodSandbox,
        container: Container,
    ) -> Reply<()> {
        // Another runtime may send the resources before the update.
        let has = match facts::is_nrid(name_of_runtime(session)) {
            true => facts::assignment(&container.linux.resources).cpus,
            false => Default::default(),
        };
        self.with(|State { allocator, unconfirmed, .. }| {
            unconfirmed.add(&allocator.confirm(&container.id, &has), None);
            Ok(())
        })?;
        confirm::start(&self.state, session);
        Ok(())
    }

    async fn stop_container(
        &self,
        session: &Session,
        _: PodSandbox,
        container: Container,
    ) -> Reply<Vec<Update>> {
        let updates = self.with(|State { allocator, known, unconfirmed }| {
            known.remove(&container.id);
            let changes = allocator.remove(&container.id);
            unconfirmed.add(&changes, Some(&container.id));
            Ok(updates(changes, Some(&container.id)))
        });
        confirm::start(&self.state, session);
        updates
    }
}

/// Returns the name by which the runtime introduced itself.
fn name_of_runtime(session: &Session) -> &str {
    session.runtime().map(|runtime| runtime.name.as_str()).unwrap_or_default()
}

/// Returns what a container got at its creation.
fn assigned(placed: &Placed) -> Assigned {
    let cpuset = placed.request.pinned.as_ref().map(|(cpus, _)| cpus.clone());
    Assigned {
        kind: placed.kind,
        class: placed.request.class.clone(),
        cpuset: cpuset.filter(|_| placed.kind == Kind::Pinned),
        count: (placed.kind == Kind::Exclusive).then_some(placed.first_count),
        reason: placed.reason.clone(),
        has_own: true,
        is_proven: true,
    }
}

/// Whether resources make their container a partition.
fn is_partition(resources: &LinuxResources) -> bool {
    resources.unified.get(PARTITION).is_some_and(|wanted| wanted.trim() != NO_PARTITION)
}

/// Returns resources that are replaced by those of an update, as far as the policy looks at them.
fn merged(present: &LinuxResources, changed: &LinuxResources) -> LinuxResources {
    let mut merged = present.clone();
    let cpu = merged.cpu.mut_or_insert_default();
    if changed.cpu.quota.is_some() {
        cpu.quota = changed.cpu.quota.clone();
    }
    if changed.cpu.period.is_some() {
        cpu.period = changed.cpu.period.clone();
    }
    if changed.memory.limit.is_some() {
        merged.memory.mut_or_insert_default().limit = changed.memory.limit.clone();
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_plugin::testing::{InProcessRuntime, container, pod};

    /// Starts the plugin on a machine with four CPUs.
    fn start(policy: &str) -> (tempfile::TempDir, InProcessRuntime<Topology>) {
        let devices = tempfile::tempdir().unwrap();
        let cpu = devices.path().join("system/cpu");
        std::fs::create_dir_all(&cpu).unwrap();
        std::fs::write(cpu.join("online"), "0-3").unwrap();
        let runtime = InProcessRuntime::start(Topology::new(devices.path().to_owned()), policy);
        (devices, runtime.unwrap())
    }

    #[test]
    fn containers_keep_exclusive_cpus_with_another_policy_and_others_follow_it() {
        let (_devices, runtime) = start("socket = ''");
        let pod = pod("shop");
        let mut db = container(&pod, "db");
        db.annotations.insert("nri-topology/cpus".to_owned(), "1".to_owned());
        let reply = runtime.create_container(&pod, &db).unwrap();
        let own = reply.adjust.linux.resources.cpu.cpus.clone();
        let web = container(&pod, "web");
        let reply = runtime.create_container(&pod, &web).unwrap();
        let shared = reply.adjust.linux.resources.cpu.cpus.clone();
        assert_eq!((own.as_str(), shared.as_str()), ("0", "1-3"));

        let refused = runtime.reconfigure("socket = ''\nshared_mim = 1").unwrap_err().to_string();
        assert!(refused.contains("line 2, column 1"), "{refused}");
        let refused = runtime.reconfigure("reserved_cpus = '7'").unwrap_err().to_string();
        assert!(refused.contains('7'), "{refused}");
        assert!(runtime.take_requests().is_empty());

        runtime.reconfigure("socket = ''\nreserved_cpus = '3'").unwrap();
        let requests = runtime.take_requests();
        let updates: Vec<_> = requests.iter().flat_map(|request| &request.update).collect();
        let [update] = updates[..] else { panic!("{updates:?}") };
        assert_eq!(update.container_id, web.id);
        assert_eq!(update.linux.resources.cpu.cpus, "1-2");
        let mut other = container(&pod, "other");
        other.annotations.insert("nri-topology/cpus".to_owned(), "3".to_owned());
        let refused = runtime.create_container(&pod, &other).unwrap_err().to_string();
        assert!(refused.contains("3 exclusive CPUs are wanted"), "{refused}");
    }
}
