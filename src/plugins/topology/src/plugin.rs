//! The NRI plugin: events of the runtime to the allocator, its decisions to the runtime.

use crate::{
    allocator::Allocator,
    classes::{self, Cgroups},
    existing::Existing,
    facts::{self, ASSIGNED_CLASS_KEY, KIND_KEY, REASON_KEY},
    placed::{Assignment, Changes, Kind},
    policy::Policy,
    request::request,
    snapshot::Snapshot,
    socket::StatusSocket,
    status::Status,
    sysfs,
};
use nri_plugin::{
    Adjustment, Changes as Updated, Creation, Plugin, Reply, Session, SetResources, Update,
    proto::{Container, LinuxResources, PodSandbox},
};
use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// Where the host shows that it has cgroup v2 only.
const CONTROLLERS: &str = "/sys/fs/cgroup/cgroup.controllers";

/// The plugin.
pub struct Topology {
    policy_file: Option<PathBuf>,
    devices: PathBuf,
    cgroups: Cgroups,
    allocator: Arc<Mutex<Option<Allocator>>>,
    socket: Mutex<Option<StatusSocket>>,
}

/// Event before the plugin is configured.
#[derive(Debug, thiserror::Error)]
#[error("topology: the runtime has not configured the plugin")]
pub struct NotConfigured;

impl Topology {
    /// Creates the plugin. The policy is that of the runtime, else that of the file, else the
    /// default one; `devices` is `/sys/devices`.
    pub fn new(policy_file: Option<PathBuf>, devices: PathBuf) -> Self {
        let is_v2 = Path::new(CONTROLLERS).exists();
        Self {
            policy_file,
            devices,
            cgroups: if is_v2 { Cgroups::V2 } else { Cgroups::V1 },
            allocator: Arc::default(),
            socket: Mutex::default(),
        }
    }

    /// Calls a function with the state.
    fn with<T>(&self, call: impl FnOnce(&mut Allocator) -> Reply<T>) -> Reply<T> {
        let mut allocator = self.allocator.lock().unwrap_or_else(PoisonError::into_inner);
        call(allocator.as_mut().ok_or(NotConfigured)?)
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
        let allocator = self.allocator.clone();
        let status = move || {
            let allocator = allocator.lock().unwrap_or_else(PoisonError::into_inner);
            allocator.as_ref().map(Status::of)
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
        let text = match &self.policy_file {
            Some(path) if text.trim().is_empty() => std::fs::read_to_string(path)
                .map_err(|error| format!("policy {}: {error}", path.display()))?,
            _ => text.to_owned(),
        };
        let policy: Policy = text.parse()?;
        let machine = sysfs::machine(&Snapshot::read(&self.devices))?;
        for (name, class) in &policy.classes {
            if let Some(why) = classes::without_effect(class, self.cgroups) {
                tracing::warn!("class {name:?}: {why}");
            }
        }
        let path = policy.socket.clone();
        let allocator = Allocator::new(machine, policy)?;
        *self.allocator.lock().unwrap_or_else(PoisonError::into_inner) = Some(allocator);
        self.serve_status(&path);
        Ok(())
    }

    async fn synchronize(
        &self,
        _: &Session,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Reply<Vec<Update>> {
        let pods: HashMap<&str, &PodSandbox> =
            pods.iter().map(|pod| (pod.id.as_str(), pod)).collect();
        self.with(|allocator| {
            let no_pod = PodSandbox::default();
            let mut existing = BTreeMap::new();
            for container in &containers {
                let pod = pods.get(container.pod_sandbox_id.as_str()).copied().unwrap_or(&no_pod);
                let resources = &container.linux.resources;
                let subject = facts::subject(pod, container, resources);
                let (assigned, has) = (facts::assigned(container), facts::assignment(resources));
                let found = Existing::new(allocator.policy(), &subject, assigned, has);
                let reason = container.annotations.get(REASON_KEY).cloned().or(found.reason);
                existing.insert(container.id.clone(), Existing { reason, ..found });
            }
            let changes = allocator.synchronize(&existing);
            for (id, placed) in allocator.containers() {
                if let Some(reason) = &placed.reason {
                    tracing::info!("container {id} shares CPUs: {reason}");
                }
            }
            Ok(updates(changes, None))
        })
    }

    async fn create_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Creation> {
        let resources = &container.linux.resources;
        let mut subject = facts::subject(&pod, &container, resources);
        let has = facts::assignment(resources);
        subject.pinned = (!has.cpus.is_empty()).then_some((has.cpus, has.nodes));
        self.with(|allocator| {
            let request = request(allocator.policy(), &subject)?;
            let changes = allocator.create(&container.id, request)?;
            let placed = &allocator.containers()[&container.id];
            let mut adjustment = Adjustment::new();
            // Overrides: what a container says here of itself has no meaning.
            adjustment.override_annotation(KIND_KEY, facts::word(placed.kind));
            adjustment.override_annotation(ASSIGNED_CLASS_KEY, &placed.request.class);
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
            if matches!(placed.kind, Kind::Exclusive | Kind::Shared) {
                set(&mut adjustment, &placed.assignment());
            }
            if placed.kind != Kind::Unmanaged {
                let class = &allocator.policy().classes[&placed.request.class];
                classes::set_all(&mut adjustment, class, subject.memory_limit, self.cgroups);
            }
            let updates = updates(changes, Some(&container.id));
            Ok(Creation { adjustment, updates, evictions: Vec::new() })
        })
    }

    async fn update_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
        resources: LinuxResources,
    ) -> Reply<Updated> {
        let now = merged(&container.linux.resources, &resources);
        let subject = facts::subject(&pod, &container, &now);
        self.with(|allocator| {
            let changes = allocator.update(&container.id, &subject)?;
            let Some(placed) = allocator.containers().get(&container.id) else {
                return Ok(Updated::default());
            };
            let mut update = Update::new(&container.id);
            let asks_for_cpus = !resources.cpu.cpus.is_empty() || !resources.cpu.mems.is_empty();
            let is_changed = asks_for_cpus || changes.contains_key(&container.id);
            if is_changed && placed.kind != Kind::Unmanaged {
                set(&mut update, &placed.assignment());
            }
            if placed.kind != Kind::Unmanaged && resources.memory.limit.is_some() {
                let class = &allocator.policy().classes[&placed.request.class];
                classes::set_memory(&mut update, class, subject.memory_limit, self.cgroups);
            }
            let mut all = updates(changes, Some(&container.id));
            all.push(update);
            Ok(Updated { updates: all, evictions: Vec::new() })
        })
    }

    async fn stop_container(
        &self,
        _: &Session,
        _: PodSandbox,
        container: Container,
    ) -> Reply<Vec<Update>> {
        self.with(|allocator| Ok(updates(allocator.remove(&container.id), Some(&container.id))))
    }
}

/// Sets CPUs and memory nodes that are not empty.
fn set(resources: &mut impl SetResources, assignment: &Assignment) {
    if !assignment.cpus.is_empty() {
        resources.set_cpu_cpus(assignment.cpus.to_string());
    }
    if !assignment.nodes.is_empty() {
        resources.set_cpu_mems(assignment.nodes.to_string());
    }
}

/// Returns updates for all changed containers but one. An update that fails, because its container
/// ends at the same time, does not fail the event.
fn updates(changes: Changes, except: Option<&str>) -> Vec<Update> {
    let others = changes.into_iter().filter(|(id, _)| Some(id.as_str()) != except);
    let update = |(id, assignment): (String, Assignment)| {
        let mut update = Update::new(id);
        set(&mut update, &assignment);
        update.set_ignore_failure(true);
        update
    };
    others.map(update).collect()
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
