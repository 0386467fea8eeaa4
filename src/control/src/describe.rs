//! The messages that describe containers and pods: lists, a page at a time, and all that is known
//! of one of them.

use nri_files::{AuditLine, MissedPlugin, OsText};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use std::collections::BTreeMap;

/// A question about containers and pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Describe {
    /// The next containers, without sandbox containers, in the order of their ids. Reply:
    /// containers, or refused.
    Containers {
        /// `next` of the previous page; `None` for the first page.
        #[serde(default)]
        after: Option<String>,
    },
    /// The next pods. Reply: pods, or refused.
    Pods {
        /// `next` of the previous page; `None` for the first page.
        #[serde(default)]
        after: Option<String>,
    },
    /// One container or pod. Replies: container, pod, or refused: none, or several, are meant.
    Object {
        /// Id, else name, else prefix of an id.
        id: String,
        /// Which of them is meant; `None` for either.
        #[serde(default)]
        kind: Option<ObjectKind>,
        /// Whether [`ContainerDescription::recorded`] is wanted.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        recorded: bool,
    },
}

/// Containers or pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    /// Containers.
    Container,
    /// Pods.
    Pod,
}

/// Answer to [`Describe`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Description {
    /// Some of the containers.
    Containers(Page<ContainerSummary>),
    /// Some of the pods.
    Pods(Page<PodSummary>),
    /// A container.
    Container(Box<ContainerDescription>),
    /// A pod.
    Pod(Box<PodDescription>),
}

/// A [`Description`] as JSON. Wrapper and hook decode replies, too, and this keeps the code that
/// decodes descriptions out of their programs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EncodedDescription(Box<RawValue>);

impl EncodedDescription {
    /// Encodes a description.
    ///
    /// # Errors
    /// Never, as long as all keys of maps are texts.
    pub fn new(description: &Description) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(description).map(Self)
    }

    /// Decodes the description.
    ///
    /// # Errors
    /// It is of a kind that this release does not know.
    pub fn decode(&self) -> Result<Description, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }

    /// Length of the JSON in bytes.
    pub fn encoded_len(&self) -> usize {
        self.0.get().len()
    }
}

impl PartialEq for EncodedDescription {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

/// A part of a list. Messages have a limited size, and `nrid` serves other requests between two
/// pages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Page<T> {
    /// The entries; possibly none, even if there are more.
    pub entries: Vec<T>,
    /// What the request for the next page has as `after`; `None` if this is the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A container in a list.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ContainerSummary {
    /// Id by which the runtime knows the container.
    pub id: String,
    /// Name; may be empty.
    pub name: String,
    /// Id of its pod.
    pub pod: String,
    /// Name of its pod; empty if `nrid` made the pod for this container.
    #[serde(default)]
    pub pod_name: String,
    /// Engine; may be empty.
    pub engine: String,
    /// creating, created, running or stopped.
    pub state: String,
    /// Id of the first process, while it is known and exists.
    pub pid: Option<i32>,
    /// The runtime's program.
    pub runtime: OsText,
    /// Time of the creation in nanoseconds since the epoch.
    pub created: i64,
    /// Plugins whose changes the container has.
    pub adjusted_by: Vec<String>,
    /// Plugins without which it was created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<MissedPlugin>,
    /// Directories of its cgroups; none before its first process is known.
    #[serde(default)]
    pub cgroups: CgroupPaths,
}

/// Directories of a container's cgroups.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CgroupPaths {
    /// Directories in cgroup v1, by controller.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub v1: BTreeMap<String, OsText>,
    /// The directory in cgroup v2, which has the controllers that are not in `v1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v2: Option<OsText>,
}

/// A pod in a list.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PodSummary {
    /// Id.
    pub id: String,
    /// Name; may be empty.
    pub name: String,
    /// Namespace; may be empty.
    pub namespace: String,
    /// Engine of its containers; may be empty.
    pub engine: String,
    /// new, running or stopped, as plugins know the pod.
    pub state: String,
    /// sandbox (the pod has a sandbox container), container (`nrid` made it for one container) or
    /// shared (it has several containers, and no sandbox container).
    pub kind: String,
    /// Id of the first process of its sandbox container.
    pub pid: Option<i32>,
    /// The runtime's program; `None` without containers.
    pub runtime: Option<OsText>,
    /// Time of the creation of its oldest container, the sandbox container included, in nanoseconds
    /// since the epoch.
    pub created: Option<i64>,
    /// Number of its containers, without its sandbox container.
    pub containers: usize,
    /// Plugins whose changes its containers have.
    pub adjusted_by: Vec<String>,
    /// Plugins without which any of its containers was created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<MissedPlugin>,
}

/// All that is known of a container.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ContainerDescription {
    /// What lists show.
    pub summary: ContainerSummary,
    /// Id by which plugins know the container.
    pub plugin_id: String,
    /// Times of start and end in nanoseconds since the epoch, if they are known.
    pub started: Option<i64>,
    /// See `started`.
    pub finished: Option<i64>,
    /// How the first process ended; only after its end.
    pub exit: Option<ContainerExit>,
    /// Root directory of the runtime.
    pub root: OsText,
    /// Options of the runtime before its verb.
    pub runtime_options: Vec<OsText>,
    /// The bundle directory.
    pub bundle: OsText,
    /// Name of the OCI config in the bundle.
    pub config: String,
    /// Whether plugins' adjustments, or the hook of `nrid`, are in that file.
    pub config_adjusted: bool,
    /// Whether the hook of `nrid` is in that file.
    pub hooked: bool,
    /// Arguments of the first process.
    pub args: Vec<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// OCI hooks, without that of `nrid`.
    pub hooks: Vec<ContainerHook>,
    /// `linux.resources` as the engine last requested them.
    pub requested: Value,
    /// Effective `linux.resources`.
    pub effective: Value,
    /// Resources of the update in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Value>,
    /// The plugins that set a field, by the name of the field.
    pub owners: BTreeMap<String, Vec<String>>,
    /// Reason of the eviction in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction: Option<String>,
    /// If it is wanted: the lines that the audit log has of the container as far as the record
    /// tells. They are of the creation and of the life of the container; an `update` has the
    /// resources that differ from those of the creation, and no time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recorded: Vec<AuditLine>,
}

/// End of a container's first process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ContainerExit {
    /// Exit code, as a shell reports it.
    pub code: i32,
    /// Completed, Error, OOMKilled or Unknown.
    pub reason: String,
    /// Explanation; may be empty.
    pub message: String,
}

/// An OCI hook of a container.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ContainerHook {
    /// Name of its list in the OCI config, such as `poststop`.
    pub stage: String,
    /// The program.
    pub path: String,
    /// Its arguments.
    pub args: Vec<String>,
}

/// All that is known of a pod.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PodDescription {
    /// What lists show.
    pub summary: PodSummary,
    /// Uid; may be empty.
    pub uid: String,
    /// Runtime handler; may be empty.
    pub runtime_handler: String,
    /// IP addresses, if the engine has them before the pod starts.
    pub ips: Vec<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// The sandbox container.
    pub sandbox: Option<Box<ContainerDescription>>,
    /// The other containers.
    pub containers: Vec<ContainerSummary>,
}
