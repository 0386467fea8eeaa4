//! The record of a container, in memory and on disk, so that the next `nrid` knows the container.

use crate::{
    bundle::record::BundleRecord,
    cgroup::location,
    engine::own_nri::ContainerEngine,
    host::{
        clock::now,
        process::{ProcessIdentity, ProcessStat},
        runtime::{LowLevelRuntime, State},
    },
    state::{
        derived::DerivedFields, json, key::ContainerKey, set_by_plugins, status::ContainerStatus,
    },
};
use nri_adaptation::Origin;
use nri_api::proto::{self, Field, FieldOwners, LinuxResources, OptionalString};
use nri_api::{Packed, opt};
use nri_cgroup::CgroupDirs;
use nri_files::{ExecLimits, MissedPlugin};
use protobuf::{Enum, MessageField};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{path::PathBuf, sync::Arc};

/// Exit code of a container whose wait status is not known, the same as in containerd: plugins must
/// not take a crash for a success.
const UNKNOWN_EXIT_CODE: i32 = 255;

/// Message of a container whose wait status is not known.
const UNKNOWN_EXIT_MESSAGE: &str = "nrid could not read the exit status: either nrid did not run \
    when the process ended, or the process was reaped first, and the kernel (before Linux 6.15) \
    does not report the status of a reaped process";

/// Resources that are effective, or are about to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EffectiveResources {
    /// `linux.resources`.
    pub resources: Value,
    /// Block I/O class, if the update sets it; an empty name removes the container from its class.
    pub blockio_class: Option<String>,
    /// RDT class and its resctrl group, if the update sets it; an empty name removes the container
    /// from its class.
    pub rdt_class: Option<(String, String)>,
}

impl EffectiveResources {
    /// Creates resources that do not change classes.
    pub fn of(resources: Value) -> Self {
        Self { resources, blockio_class: None, rdt_class: None }
    }
}

/// An update in progress, and the record's fields after it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PendingUpdate {
    /// Resources that the engine requested.
    #[serde(alias = "asked")]
    pub requested: Value,
    /// Resources that will be effective.
    #[serde(alias = "laid")]
    pub effective: EffectiveResources,
    /// Owners of the resource fields.
    #[serde(with = "json")]
    pub owners: FieldOwners,
    /// Fields that follow from others.
    #[serde(default, skip_serializing_if = "DerivedFields::is_empty")]
    pub derived: DerivedFields,
    /// What updates for creations in progress have replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<ReplacedResources>,
    /// The wrapper that runs the runtime's `update`; `None` if `nrid` runs it.
    pub caller: Option<ProcessIdentity>,
    /// Whether plugins received the update, and are to be notified when it has been made.
    #[serde(alias = "told", default)]
    pub notify: bool,
}

/// The resources of a container before an update for the creation of another one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReplacedResources {
    /// Name by which hooks report the container that is created; it is that of one creation.
    pub creation: String,
    /// The fields that the update has set, and no later one but for creations in progress. Their
    /// owners are the plugins that requested the update.
    #[serde(with = "json")]
    pub fields: FieldOwners,
    /// The resources, without device rules. The classes are those before, if the update sets them.
    pub effective: EffectiveResources,
    /// Owners of the resource fields.
    #[serde(with = "json")]
    pub owners: FieldOwners,
    /// Fields that follow from others.
    #[serde(default, skip_serializing_if = "DerivedFields::is_empty")]
    pub derived: DerivedFields,
    /// Control files of fields that had no value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ControlFile>,
}

/// A control file, and its content before an update.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ControlFile {
    /// Name of the resource field.
    pub field: String,
    /// Path of the file.
    pub path: PathBuf,
    /// Content of the file.
    pub content: String,
}

/// Start time of a process that had ended before its start time was read. No process of a container
/// has this start time.
const ENDED_BEFORE_READ: u64 = 0;

/// A container.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// Runtime root and id.
    pub key: ContainerKey,
    /// Id of the pod.
    pub pod_id: String,
    /// Whether the container is its pod's sandbox, which plugins know as the pod only.
    pub sandbox: bool,
    /// The engine that created the container.
    #[serde(alias = "maker", default)]
    pub engine: ContainerEngine,
    /// The container's runtime: program, global options, environment.
    pub runtime: LowLevelRuntime,
    /// The bundle.
    pub bundle: BundleRecord,
    /// The container in messages to plugins; its `id` may differ from the key's.
    pub container: Packed<proto::Container>,
    /// Owners of the resource fields.
    #[serde(with = "json")]
    pub owners: FieldOwners,
    /// Resource fields that follow from others.
    #[serde(default, skip_serializing_if = "DerivedFields::is_empty")]
    pub derived: DerivedFields,
    /// `linux.resources` as the engine last requested them.
    #[serde(alias = "asked", with = "shared")]
    pub requested: Arc<Value>,
    /// Effective `linux.resources`; shares the memory of `requested` if both are equal.
    #[serde(alias = "in_force", with = "shared")]
    pub effective: Arc<Value>,
    /// The update in progress. The next `nrid` determines whether it was made.
    #[serde(alias = "pending", default)]
    pub pending_update: Option<PendingUpdate>,
    /// What updates for creations in progress have replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<ReplacedResources>,
    /// The eviction in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction: Option<Eviction>,
    /// Status as plugins know it.
    #[serde(alias = "phase")]
    pub status: ContainerStatus,
    /// Id of the first process, once it is known.
    pub pid: Option<i32>,
    /// Start time of the first process in clock ticks, to detect reuse of the pid; `None` while it
    /// cannot be read, `ENDED_BEFORE_READ` if the process had ended before.
    pub start_time: Option<u64>,
    /// `/proc/PID/cgroup` of the first process when the container was created, once it is known.
    #[serde(default)]
    pub cgroups: Option<String>,
    /// Whether `run` or `restore` created the container, so that our hook reports its events.
    pub by_run: bool,
    /// The process that creates the container: the wrapper, which under `run` and `restore` becomes
    /// the runtime and lives as long as the container.
    #[serde(default)]
    pub caller: Option<ProcessIdentity>,
    /// Time of the creation, which distinguishes successive containers of the same id.
    #[serde(default)]
    pub incarnation: i64,
    /// Whether our hook is in the container's `config.json`.
    pub hooked: bool,
    /// Plugins without which the container was created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<MissedPlugin>,
    /// Limits of `exec`; `None` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec_limits: Option<Box<ExecLimits>>,
}

/// An eviction, which the next `nrid` continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eviction {
    /// Reason that the plugin gave.
    pub reason: String,
    /// Time at which SIGTERM was sent, in nanoseconds since the epoch; `None` before that.
    pub term_sent: Option<i64>,
}

impl Record {
    /// Returns the container with its current status, for messages to plugins.
    pub fn message(&self) -> proto::Container {
        let mut container = self.container.get();
        set_by_plugins::add(&mut container, &self.owners);
        container.state = self.status.to_nri().into();
        container.pid = self.pid.and_then(|p| u32::try_from(p).ok()).unwrap_or(0);
        container
    }

    /// Returns what policies of plugins may be limited to, beyond the messages to plugins.
    pub fn origin(&self) -> Origin {
        Origin { engine: self.engine.name.clone(), runtime: self.runtime.name() }
    }

    /// Returns the id by which plugins know the container.
    pub fn nri_id(&self) -> &str {
        self.container.text(&["id"])
    }

    /// Returns the time of the creation in messages to plugins.
    pub fn created_at(&self) -> i64 {
        self.container.number("created_at")
    }

    /// Returns the container's control groups; `None` before its first process is known, and for a
    /// container that stays in those of its caller.
    pub fn cgroup(&self) -> Option<CgroupDirs> {
        let membership = self.cgroups.as_deref().filter(|text| !text.is_empty())?;
        let membership = self.runtime.makes_cgroups().then_some(membership)?;
        let subgroup = self.container.entry("annotations", location::SUBGROUP_ANNOTATION);
        let systemd = self.runtime.uses_systemd();
        location::locate(membership, self.cgroups_path(), systemd, subgroup)
    }

    /// Returns the path of the container's cgroup below the root of each hierarchy, if the OCI
    /// config says it.
    pub fn configured_cgroup(&self) -> Option<PathBuf> {
        location::configured(self.cgroups_path(), self.runtime.uses_systemd())
    }

    /// Returns the paths where the runtime may make the container's cgroup.
    pub fn possible_cgroups(&self) -> Vec<PathBuf> {
        let path = self.cgroups_path();
        let of_caller = || location::membership(self.caller?.pid);
        location::possible(path, self.runtime.uses_systemd(), of_caller)
    }

    fn cgroups_path(&self) -> &str {
        let is_used = self.runtime.makes_cgroups();
        if is_used { self.container.text(&["linux", "cgroups_path"]) } else { "" }
    }

    /// Updates the record with the output of the runtime's `state`.
    pub fn observe(&mut self, state: &State) {
        if state.pid > 0 {
            self.set_process(state.pid);
        }
        match state.status.as_str() {
            "created" if self.status == ContainerStatus::Creating => {
                self.status = ContainerStatus::Created;
            }
            "running" | "paused" => {
                self.set_running();
            }
            _ => {}
        }
    }

    /// Records the first process of a created container, and the process's control groups. Returns
    /// whether the record changed.
    pub fn set_process(&mut self, pid: i32) -> bool {
        let is_known = |r: &Self| (r.pid, r.start_time.is_some(), r.cgroups.is_some());
        let known_before = is_known(self);
        if self.pid != Some(pid) {
            self.pid = Some(pid);
            self.start_time = None;
        }
        if self.start_time.is_none() {
            // If the start time cannot be read now, the exit watch reads it later.
            self.start_time = ProcessStat::of(pid)
                .ok()
                .map(|stat| stat.map_or(ENDED_BEFORE_READ, |stat| stat.start_time));
        }
        if self.cgroups.is_none() {
            self.cgroups = location::membership(pid);
        }
        is_known(self) != known_before
    }

    /// Records that the first process runs. Returns whether that was not known yet.
    pub fn set_running(&mut self) -> bool {
        let is_new = self.status < ContainerStatus::Running;
        if is_new {
            self.status = ContainerStatus::Running;
            self.container.change(|container| container.started_at = now());
        }
        is_new
    }

    /// Records that the runtime has created the container. Returns whether that was not known yet.
    pub fn set_created(&mut self) -> bool {
        let is_new = self.status < ContainerStatus::Created;
        self.status = self.status.max(ContainerStatus::Created);
        is_new
    }

    /// Records that the first process has ended, with its wait status if that is known.
    /// `oom_killed` is whether the kernel killed a process of the container because of its memory
    /// limit.
    pub fn set_stopped(&mut self, wait_status: Option<i32>, oom_killed: bool) {
        // A container whose creation failed has had no process.
        let has_run = self.pid.is_some() || self.status >= ContainerStatus::Created;
        self.container.change(|container| {
            container.finished_at = now();
            if let Some(status) = wait_status {
                // The exit code that a shell reports.
                let signal = status & 0x7f;
                container.exit_code = if signal == 0 { (status >> 8) & 0xff } else { 128 + signal };
                let reason = if status == 0 { "Completed" } else { "Error" };
                container.status_reason = reason.to_owned();
            } else if has_run {
                container.exit_code = UNKNOWN_EXIT_CODE;
                container.status_reason = "Unknown".to_owned();
                container.status_message = UNKNOWN_EXIT_MESSAGE.to_owned();
            }
            if oom_killed && wait_status != Some(0) {
                container.status_reason = "OOMKilled".to_owned();
            }
        });
        self.status = ContainerStatus::Stopped;
        self.pid = None;
        self.start_time = None;
    }

    /// Whether the first process is known to have ended.
    pub fn process_has_ended(&self) -> bool {
        match (self.pid, self.start_time) {
            (Some(pid), Some(start_time)) => {
                ProcessIdentity { pid, start_time }.has_ended().unwrap_or(false)
            }
            (Some(pid), None) => {
                ProcessStat::of(pid).is_ok_and(|stat| stat.is_none_or(|stat| stat.has_ended))
            }
            (None, _) => false,
        }
    }

    /// Records that an update has been made.
    pub fn complete(&mut self, update: PendingUpdate) {
        let PendingUpdate { requested, effective, owners, derived, replaced, .. } = update;
        let message = nri_spec::resources_to_nri(&effective.resources);
        self.pending_update = None;
        (self.owners, self.derived, self.replaced) = (owners, derived, replaced);
        (self.requested, self.effective) = (requested.into(), effective.resources.into());
        self.share_resources();
        let Ok(resources) = message else { return };
        self.container.change(|container| {
            let Some(linux) = container.linux.as_mut() else { return };
            let old = linux.resources.take().unwrap_or_default();
            // OCI resources have no class names. An empty name removes a container from its class.
            let class = |new: Option<String>, old: MessageField<OptionalString>| match new {
                Some(name) => opt(Some(name).filter(|n| !n.is_empty())),
                None => old,
            };
            linux.resources = Some(LinuxResources {
                blockio_class: class(effective.blockio_class, old.blockio_class),
                rdt_class: class(effective.rdt_class.map(|(name, _)| name), old.rdt_class),
                ..resources
            })
            .into();
        });
    }

    /// Shares the memory of requested and effective resources if they are equal.
    pub fn share_resources(&mut self) {
        if self.requested == self.effective {
            self.effective = self.requested.clone();
        }
    }

    /// Whether plugins have set resources, which an update of the engine must not replace.
    pub fn has_plugin_resources(&self) -> bool {
        (!Arc::ptr_eq(&self.requested, &self.effective) && self.requested != self.effective)
            || self.has_owned_resources()
    }

    /// Whether plugins own any resource field.
    pub fn has_owned_resources(&self) -> bool {
        let is_resource = |field: &i32| Field::from_i32(*field).is_some_and(nri_api::is_resource);
        self.owners.simple.keys().chain(self.owners.compound.keys()).any(is_resource)
    }
}

/// (De)serialization of `Arc<Value>`.
mod shared {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;
    use std::sync::Arc;

    pub(super) fn serialize<S: Serializer>(
        value: &Arc<Value>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<Value>, D::Error> {
        Value::deserialize(deserializer).map(Arc::new)
    }
}

/// A record as an earlier version (commit 43e9a1b) wrote it.
#[cfg(test)]
pub(crate) const EXAMPLE: &str = "{\"key\":{\"root\":\"/run/runc\",\"id\":\"c1\"},\
        \"pod_id\":\"p1\",\"sandbox\":false,\
        \"maker\":{\"engine\":\"docker\",\"cri\":null},\"runtime\":{\"path\":\"/usr/bin/runc\
        \",\"globals\":[\"--systemd-cgroup\"],\"environment\":[\"PATH=/bin\"],\"cwd\":\"/\",\
        \"root\":\"/run/runc\"},\"bundle\":{\"dir\":\"/b\",\"name\":\"config.json\",\"identit\
        y\":[1,2]},\"container\":{\"id\": \"c1\", \"podSandboxId\": \"p1\", \"name\": \"web\", \
        \"state\": \"CONTAINER_CREATED\"},\"owners\":{\"simple\": {\"8\": \"10-a\"}},\"asked\
        \":{},\"in_force\":{\"memory\":{\"limit\":2}},\"pending\":{\"asked\":{},\"laid\":{\"r\
        esources\":{\"memory\":{\"limit\":3}},\"blockio_class\":\"slow\",\"rdt_class\":[\"gol\
        d\",\"g\"]},\"owners\":{\"simple\": {\"8\": \"10-a\"}},\"caller\":{\"pid\":41,\"start\
        _time\":7},\"told\":true},\"phase\":\"running\",\"pid\":42,\"start_time\":8,\"cgroups\
        \":\"0::/x\\n\",\"by_run\":true,\"caller\":{\"pid\":41,\"start_time\":7},\"incarnatio\
        n\":9,\"hooked\":true}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_form_of_earlier_versions() {
        let record: Record = serde_json::from_str(EXAMPLE).unwrap();
        assert_eq!(record.status, ContainerStatus::Running);
        assert_eq!(record.engine.name, "docker");
        assert_eq!(record.effective["memory"]["limit"], 2);
        assert!(record.has_plugin_resources());
        let earlier = EXAMPLE.replace("\"identity\"", "\"written\":\"ab\",\"identity\"");
        let earlier: Record = serde_json::from_str(&earlier).unwrap();
        assert_eq!(earlier.bundle.edited.as_deref(), Some("ab"));
        let update = record.pending_update.as_ref().unwrap();
        assert_eq!(update.effective.resources["memory"]["limit"], 3);
        assert!(update.notify && update.caller == record.caller);
        let names = [
            ("maker", "engine"),
            ("asked", "requested"),
            ("in_force", "effective"),
            ("laid", "effective"),
            ("told", "notify"),
            ("pending", "pending_update"),
            ("phase", "status"),
        ];
        let renamed = names.iter().fold(EXAMPLE.to_owned(), |text, (earlier, name)| {
            text.replace(&format!("\"{earlier}\":"), &format!("\"{name}\":"))
        });
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(value(&serde_json::to_string(&record).unwrap()), value(&renamed));
    }

    #[test]
    fn status_names_on_disk_are_those_of_earlier_versions() {
        for (status, name) in [
            (ContainerStatus::Creating, r#""creating""#),
            (ContainerStatus::Created, r#""created""#),
            (ContainerStatus::Running, r#""running""#),
            (ContainerStatus::Stopped, r#""stopped""#),
        ] {
            assert_eq!(serde_json::to_string(&status).unwrap(), name);
            assert_eq!(serde_json::from_str::<ContainerStatus>(name).unwrap(), status);
        }
        // Earlier versions do not have the status `Starting`.
        assert_eq!(serde_json::to_string(&ContainerStatus::Starting).unwrap(), r#""created""#);
    }

    #[test]
    fn exit_codes_and_reasons_are_those_of_a_shell_and_of_cri() {
        let mut record: Record = serde_json::from_str(EXAMPLE).unwrap();
        for (wait_status, oom_killed, code, reason) in [
            (0, false, 0, "Completed"),
            (3 << 8, false, 3, "Error"),
            (9, true, 137, "OOMKilled"),
            (0, true, 0, "Completed"),
        ] {
            record.set_stopped(Some(wait_status), oom_killed);
            let container = record.container.get();
            assert_eq!((container.exit_code, container.status_reason.as_str()), (code, reason));
        }
        for (status, oom_killed, code, reason) in [
            (ContainerStatus::Running, false, 255, "Unknown"),
            (ContainerStatus::Running, true, 255, "OOMKilled"),
            (ContainerStatus::Created, false, 255, "Unknown"),
            (ContainerStatus::Creating, false, 0, ""),
        ] {
            let mut record: Record = serde_json::from_str(EXAMPLE).unwrap();
            (record.status, record.pid) = (status, None);
            record.set_stopped(None, oom_killed);
            let container = record.container.get();
            let exit = (container.exit_code, container.status_reason.as_str());
            assert_eq!(exit, (code, reason), "{status:?}");
            assert_eq!(container.status_message.is_empty(), code == 0);
        }
    }
}
