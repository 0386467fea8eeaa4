//! What is known of one container, and kept on disk so that a restart of `nrid` does not forget it.

use crate::{
    bundle::config_json::{Link, digest},
    engine::own_nri::Maker,
    host::runtime::LowLevelRuntime,
    resources::enforce::Laid,
};
use nri_api::opt;
use nri_api::proto::{self, ContainerState, FieldOwners, LinuxResources, OptionalString};
use protobuf::MessageField;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Who a container is: two runtime roots may hold the same id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// Root directory of the runtime.
    pub root: PathBuf,
    /// Id that the runtime knows.
    pub id: String,
}

impl Key {
    /// The lane of a pod.
    pub fn of_pod(id: &str) -> Self {
        Self { root: "pod".into(), id: id.to_owned() }
    }

    /// The lane of a bundle, by device and inode of its directory.
    pub fn of_bundle(identity: (u64, u64)) -> Self {
        Self { root: "bundle".into(), id: format!("{}:{}", identity.0, identity.1) }
    }

    /// What the hook is told: a hook that outlives its runtime, and its container, must not report
    /// for the next one of its id.
    pub fn hook_name(&self, incarnation: i64) -> String {
        format!("{}-{incarnation:x}", self.file_name())
    }

    /// Name of the record's file.
    pub fn file_name(&self) -> String {
        let mut text = self.root.as_os_str().as_encoded_bytes().to_vec();
        text.push(0);
        text.extend_from_slice(self.id.as_bytes());
        digest(&text)[..32].to_owned()
    }
}

/// Where a container is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Agreed with the plugins; the runtime has not reported yet.
    Creating,
    /// The runtime has created it.
    Created,
    /// Its process runs.
    Running,
    /// Its process has ended, and plugins know.
    Stopped,
}

/// The bundle, and what we did to it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BundleRecord {
    /// Directory of the document.
    pub dir: PathBuf,
    /// Name of the document.
    pub name: String,
    /// Device and inode of the directory.
    pub identity: (u64, u64),
    /// The document as the engine wrote it, where we replaced it.
    pub original: Option<String>,
    /// Digest of what we wrote.
    pub written: Option<String>,
    /// The symbolic link that stood in the document's place, where one did.
    #[serde(default)]
    pub link: Option<Link>,
}

/// An update that is under way, and what the record has when it has been made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Pending {
    /// What the engine has asked for.
    pub asked: Value,
    /// What is in force.
    pub laid: Laid,
    /// Who owns which field.
    #[serde(with = "as_json")]
    pub owners: FieldOwners,
    /// The wrapper that runs the runtime's `update`; none: we do.
    pub caller: Option<Caller>,
    /// Plugins were asked, and are told when it has been made.
    #[serde(default)]
    pub told: bool,
}

/// A process, with what tells it from another of the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks.
    pub start_time: u64,
}

impl Caller {
    /// The process of this id, if there is one.
    pub fn of(pid: i32) -> Option<Self> {
        start_time(pid).map(|start_time| Self { pid, start_time })
    }

    /// Whether it has not ended.
    pub fn is_alive(self) -> bool {
        start_time(self.pid) == Some(self.start_time)
    }
}

/// One container.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// Who.
    pub key: Key,
    /// Its pod.
    pub pod_id: String,
    /// Whether it is its pod's sandbox: plugins hear of it as of a pod.
    pub sandbox: bool,
    /// Which engine made it.
    #[serde(default)]
    pub maker: Maker,
    /// How to call its runtime.
    pub runtime: LowLevelRuntime,
    /// Its bundle.
    pub bundle: BundleRecord,
    /// As plugins see it; `id` may differ from the key's.
    #[serde(with = "as_json")]
    pub container: proto::Container,
    /// Who owns which field.
    #[serde(with = "as_json")]
    pub owners: FieldOwners,
    /// `linux.resources` as the engine last gave them.
    pub asked: Value,
    /// `linux.resources` as they are in force.
    pub in_force: Value,
    /// An update that is under way: an `nrid` that ends in the middle of it is succeeded by one
    /// that has to know.
    #[serde(default)]
    pub pending: Option<Pending>,
    /// Where it is in its life.
    pub phase: Phase,
    /// First process; none before it is known.
    pub pid: Option<i32>,
    /// Its start time in clock ticks, against reuse of the pid.
    pub start_time: Option<u64>,
    /// `/proc/PID/cgroup` of the first process when the container was created; none before it is
    /// known.
    #[serde(default)]
    pub cgroups: Option<String>,
    /// Made by `run` or `restore`, so that hooks report its life.
    pub by_run: bool,
    /// The process that creates it: the wrapper; under `run` and `restore` it becomes the runtime
    /// and lives as long.
    #[serde(default)]
    pub caller: Option<Caller>,
    /// Tells it from others of its id.
    #[serde(default)]
    pub incarnation: i64,
    /// Whether our hooks are in its document.
    pub hooked: bool,
}

impl Record {
    /// The container as a message, with its present state.
    pub fn message(&self) -> proto::Container {
        let mut container = self.container.clone();
        container.state = match self.phase {
            Phase::Creating | Phase::Created => ContainerState::CONTAINER_CREATED,
            Phase::Running => ContainerState::CONTAINER_RUNNING,
            Phase::Stopped => ContainerState::CONTAINER_STOPPED,
        }
        .into();
        container.pid = self.pid.and_then(|p| u32::try_from(p).ok()).unwrap_or(0);
        container
    }

    /// Takes over an update that has been made.
    pub fn complete(&mut self, update: Pending) {
        let Pending { asked, laid, owners, .. } = update;
        let message = nri_spec::resources_to_nri(&laid.resources);
        self.pending = None;
        self.asked = asked;
        self.owners = owners;
        self.in_force = laid.resources;
        if let (Ok(resources), Some(linux)) = (message, self.container.linux.as_mut()) {
            let old = linux.resources.take().unwrap_or_default();
            // Classes are no part of the OCI resources; the empty name takes a container out of
            // any.
            let class = |new: Option<String>, old: MessageField<OptionalString>| match new {
                Some(name) => opt(Some(name).filter(|n| !n.is_empty())),
                None => old,
            };
            linux.resources = Some(LinuxResources {
                blockio_class: class(laid.blockio_class, old.blockio_class),
                rdt_class: class(laid.rdt_class.map(|(name, _)| name), old.rdt_class),
                ..resources
            })
            .into();
        }
    }

    /// Whether plugins own any resource, so that an update has to be laid out anew.
    pub fn has_owned_resources(&self) -> bool {
        use nri_api::proto::Field;
        use protobuf::Enum;
        let resource = |f: &i32| {
            matches!(
                Field::from_i32(*f),
                Some(
                    Field::MemLimit
                        | Field::MemReservation
                        | Field::MemSwapLimit
                        | Field::MemKernelLimit
                        | Field::MemTCPLimit
                        | Field::MemSwappiness
                        | Field::MemDisableOomKiller
                        | Field::MemUseHierarchy
                        | Field::CPUShares
                        | Field::CPUQuota
                        | Field::CPUPeriod
                        | Field::CPURealtimeRuntime
                        | Field::CPURealtimePeriod
                        | Field::CPUSetCPUs
                        | Field::CPUSetMems
                        | Field::PidsLimit
                        | Field::HugepageLimits
                        | Field::BlockioClass
                        | Field::RdtClass
                        | Field::CgroupsUnified
                )
            )
        };
        self.owners.simple.keys().any(resource) || self.owners.compound.keys().any(resource)
    }
}

/// Start time of a process in clock ticks after boot; `None` when it is gone (or a zombie: nothing
/// runs any more).
pub fn start_time(pid: i32) -> Option<u64> {
    let stat = procfs_stat(pid)?;
    (!matches!(stat.state, 'Z' | 'X')).then_some(stat.starttime)
}

/// Whether a process is known to have ended; one that cannot be looked at is not.
pub fn has_ended(pid: i32) -> bool {
    use rustix::{io::Errno, process};
    let there = process::Pid::from_raw(pid).map(process::test_kill_process);
    there == Some(Err(Errno::SRCH))
        || procfs_stat(pid).is_some_and(|stat| matches!(stat.state, 'Z' | 'X'))
}

fn procfs_stat(pid: i32) -> Option<procfs::process::Stat> {
    procfs::process::Process::new(pid).ok()?.stat().ok()
}

/// A pod.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PodRecord {
    /// As plugins see it.
    #[serde(with = "as_json")]
    pub sandbox: proto::PodSandbox,
    /// Whether it has a sandbox container; otherwise it ends with its last container.
    pub real: bool,
    /// Whether several containers may be in it although it has no sandbox container.
    #[serde(default)]
    pub shared: bool,
    /// Plugins have heard RunPodSandbox.
    pub told_run: bool,
    /// Plugins have heard StopPodSandbox.
    pub told_stop: bool,
}

/// Protocol messages inside JSON records.
mod as_json {
    use protobuf::MessageFull;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
    use serde_json::value::RawValue;

    pub(super) fn serialize<M: MessageFull, S: Serializer>(
        message: &M,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        let text = protobuf_json_mapping::print_to_string(message).map_err(ser::Error::custom)?;
        RawValue::from_string(text).map_err(ser::Error::custom)?.serialize(s)
    }

    pub(super) fn deserialize<'de, M: MessageFull, D: Deserializer<'de>>(
        d: D,
    ) -> Result<M, D::Error> {
        let text = Box::<RawValue>::deserialize(d)?;
        protobuf_json_mapping::parse_from_str(text.get()).map_err(de::Error::custom)
    }
}

/// The record of who wrote this document, if we did: a bundle that is used again has not the
/// engine's.
pub fn original_of<'a>(
    records: impl Iterator<Item = &'a BundleRecord>,
    identity: (u64, u64),
    name: &str,
    found: &[u8],
) -> Option<&'a BundleRecord> {
    let found = digest(found);
    let mut ours = records.filter(|b| {
        b.identity == identity && b.name == name && b.written.as_deref() == Some(&found)
    });
    ours.find(|b| b.original.is_some())
}

/// Whether `dir` is a state directory's child that may hold a record of this name.
pub fn record_file(dir: &Path, key: &Key) -> PathBuf {
    dir.join(format!("{}.json", key.file_name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_tell_equal_ids_apart() {
        let key = |root: &str, id: &str| Key { root: root.into(), id: id.into() }.file_name();
        assert_ne!(key("/a", "x"), key("/b", "x"));
        assert_ne!(key("/a", "bx"), key("/ab", "x"));
        assert_eq!(key("/a", "x"), key("/a", "x"));
    }

    #[test]
    fn own_start_time_is_known_and_a_missing_process_has_none() {
        assert!(start_time(std::process::id() as i32).is_some());
        assert_eq!(start_time(i32::MAX), None);
    }
}
