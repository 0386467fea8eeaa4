//! The NRI plugin: events of the runtime to the allocator, its decisions to the runtime.

use crate::{
    account,
    allocator::Allocator,
    cgroup::{self, Place},
    classes::{self, Cgroups},
    confirm::{self, Shared, State, Unconfirmed, set, updates},
    existing::{Assigned, Known},
    facts,
    hardware::{cpuset::CpuSet, snapshot::Snapshot, sysfs},
    placed::{Changes, Kind, Placed},
    policy::{CgroupParent, Policy},
    request::request,
    socket::StatusSocket,
    status::Status,
    subject::Subject,
};
use nri_plugin::{
    Adjustment, Changes as Updated, Creation, Plugin, Reply, RuntimeInfo, Session, SetResources,
    Update,
    proto::{Container, LinuxResources, PodSandbox},
};
use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Where the host shows that it has cgroup v2 only.
const CONTROLLERS: &str = "/sys/fs/cgroup/cgroup.controllers";

/// The file of cgroup v1 by which a cgroup is idle; kernels before 5.15 lack it.
const IDLE_V1: &str = "/sys/fs/cgroup/cpu/cpu.idle";

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
            cgroups: match is_v2 {
                true => Cgroups::V2,
                false => Cgroups::V1 { has_idle: Path::new(IDLE_V1).exists() },
            },
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

    /// Returns what the cgroups have that the runtime can set.
    fn cgroups(&self, session: &Session) -> Cgroups {
        match self.cgroups {
            Cgroups::V1 { has_idle } => {
                Cgroups::V1 { has_idle: has_idle && session.runtime().is_some_and(sets_idle_v1) }
            }
            Cgroups::V2 => Cgroups::V2,
        }
    }

    /// Creates an allocator without containers.
    fn allocator(&self, session: &Session, policy: &str) -> Reply<Allocator> {
        let policy: Policy = policy.parse()?;
        let machine = sysfs::machine(&Snapshot::read(&self.devices))?;
        let cgroups = self.cgroups(session);
        for (name, class) in &policy.classes {
            for why in classes::without_effect(class, cgroups) {
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
    async fn configure(&self, session: &Session, text: &str) -> Reply<()> {
        let allocator = self.allocator(session, text)?;
        let path = allocator.policy().socket.clone();
        let unconfirmed = Unconfirmed::default();
        *self.state() = Some(State { allocator, unconfirmed, known: BTreeMap::new() });
        self.serve_status(&path);
        Ok(())
    }

    /// Containers keep what they have, as after a restart.
    async fn reconfigure(&self, session: &Session, text: &str) -> Reply<()> {
        let mut allocator = self.allocator(session, text)?;
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
        subject.cgroup = cgroup::place(&container.linux.cgroups_path, &container.id);
        let cgroups = self.cgroups(session);
        let created = self.with(|State { allocator, known, unconfirmed }| {
            let mut request = request(allocator.policy(), &subject)?;
            // The lowest weight still takes CPU time for some milliseconds.
            request.borrows &= cgroups.has_idle();
            let changes = allocator.create(&container.id, request)?;
            let placed = &allocator.containers()[&container.id];
            let mut adjustment = Adjustment::new();
            if let Some(reason) = &placed.reason {
                tracing::info!("container {} shares CPUs: {reason}", container.name);
            }
            facts::annotate(&mut adjustment, &assigned(placed), &container.annotations);
            let keeps_cpus = placed.kind == Kind::Pinned && placed.cpus == has.cpus;
            if placed.kind != Kind::Unmanaged && !keeps_cpus {
                set(&mut adjustment, &placed.assignment());
            }
            if placed.kind != Kind::Unmanaged {
                let class = &allocator.policy().classes[&placed.request.class];
                if let Some(path) = classes::cgroups_path(class, placed, &subject.cgroup) {
                    adjustment.set_cgroups_path(path);
                    subject.cgroup = Place::Root;
                }
                let is_at_root = subject.cgroup == Place::Root;
                let is_elsewhere = subject.cgroup == Place::Elsewhere;
                if class.cgroup == Some(CgroupParent::Root) && is_elsewhere {
                    tracing::warn!(
                        "container {}: its cgroup is not made at the root, since its parent is \
                         not one that the engine chooses by itself",
                        container.name
                    );
                }
                classes::set_all(&mut adjustment, class, placed, is_at_root, cgroups);
            }
            if is_partition(resources) {
                adjustment.add_unified(PARTITION, NO_PARTITION);
            }
            let cgroup = std::mem::take(&mut subject.cgroup).of_existing();
            let subject = Subject { pinned: None, cgroup, ..subject };
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
        let cgroups = self.cgroups(session);
        let subject = facts::subject(name_of_runtime(session), &pod, &container, &now);
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
            if placed.kind != Kind::Unmanaged {
                let class = &allocator.policy().classes[&placed.request.class];
                if resources.memory.limit.is_some() {
                    classes::set_memory(&mut update, class, subject.memory_limit, cgroups);
                }
                if resources.cpu.shares.is_some() {
                    let is_at_root = subject.cgroup == Place::Root;
                    classes::set_shares(&mut update, class, placed, is_at_root, cgroups);
                }
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

/// Whether a runtime takes `cpu.idle` of `unified` for that of cgroup v1, where it refuses
/// `unified` otherwise. `nrid` 0.1.0 does not.
fn sets_idle_v1(runtime: &RuntimeInfo) -> bool {
    facts::is_nrid(&runtime.name) && runtime.version != "0.1.0"
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
        borrows: placed.request.borrows && placed.kind == Kind::Shared,
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
mod tests;
