//! The file of rules as it is written: names and texts, without meaning. [`crate::load`] reads it.
//!
//! The JSON schema for editors is made from these types, so their comments are what an editor
//! shows.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;
use std::collections::BTreeMap;

/// Returns how YAML is read. Tags have no meaning in these files: without these options,
/// `match: !privileged` would be a tag without a value.
pub(crate) fn options() -> serde_saphyr::Options {
    serde_saphyr::options! { reject_unsupported_tags: true, reject_tagged_field_names: true }
}

/// Reads the value of a key that may be left out. A key that is there has a value: `null`, or
/// nothing after the colon, would have the meaning of no key, such as a rule for all containers.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(value: D) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}

/// Rules for containers. Each container that is created passes through the rules from the first to
/// the last.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleFile {
    /// The rules, in their order.
    #[serde(default)]
    pub rules: Option<Vec<RuleText>>,
}

/// What is done with the containers that match.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleText {
    /// Name of the rule in messages, unique in the file.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// Condition in CEL, such as `image.startsWith("registry.example/")`. Without it, the rule
    /// applies to every container.
    #[serde(default, rename = "match", deserialize_with = "given")]
    #[schemars(with = "Option<String>")]
    pub condition: Option<Spanned<String>>,
    /// Whether values of this rule replace those of earlier rules, which is a conflict otherwise.
    #[serde(default, rename = "override")]
    pub overrides: bool,
    /// Change nothing, and log what the rule would do.
    #[serde(default)]
    pub observe: bool,
    /// Values that the container gets, whatever it has requested.
    #[serde(default)]
    pub set: Settings,
    /// Values that the container gets where neither it nor an earlier rule has one.
    #[serde(default, rename = "default")]
    pub defaults: Settings,
    /// Largest values. Without a value of its own, the container gets this one.
    #[serde(default)]
    pub at_most: Limits,
    /// Smallest values. A container without a value is not limited, and stays so.
    #[serde(default)]
    pub at_least: Limits,
    /// What the container gets in addition.
    #[serde(default)]
    pub add: Additions,
    /// What the container loses, by name.
    #[serde(default)]
    pub remove: Removals,
    /// What the container loses, by a condition in CEL for each entry, which is the variable `it`.
    #[serde(default)]
    pub strip: Conditions,
    /// Refuse the container, with this message for whoever creates it. May have `${…}`.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Option<String>")]
    pub refuse: Option<Placed>,
}

/// A value: a number, an amount such as `512Mi`, `50ms` or `1.5`, `unlimited`, a text, or a text
/// with expressions in `${…}`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a number or a text: write true, yes and null in quotes")]
pub(crate) enum Scalar {
    /// A whole number.
    Whole(i64),
    /// A number with a fraction.
    Fraction(f64),
    /// A text.
    Text(String),
}

impl Scalar {
    /// Returns the value as text.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Whole(number) => number.to_string(),
            Self::Fraction(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// A value, and its place in the file.
pub(crate) type Placed = Spanned<Scalar>;

/// Values by name.
pub(crate) type Named = BTreeMap<String, Placed>;

/// Declares a table of the file with one optional value for each field, by the name of the field.
macro_rules! fields {
    (
        $(#[$comment:meta])* $table:ident {
            $($(#[$about:meta])* $member:ident = $name:literal,)*
            ---
            $($(#[$other:meta])* $rest:ident: $kind:ty,)*
        }
    ) => {
        $(#[$comment])*
        #[derive(Debug, Default, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub(crate) struct $table {
            $(
                $(#[$about])*
                #[serde(rename = $name, deserialize_with = "given")]
                #[schemars(with = "Option<Scalar>")]
                pub(crate) $member: Option<Placed>,
            )*
            $($(#[$other])* pub(crate) $rest: $kind,)*
        }

        impl $table {
            /// Returns the fields that have a value, by name.
            pub(crate) fn fields(&self) -> impl Iterator<Item = (&'static str, &Placed)> {
                [$(($name, self.$member.as_ref()),)*]
                    .into_iter()
                    .filter_map(|(name, value)| Some((name, value?)))
            }
        }
    };
}

fields! {
    /// Values of a container.
    Settings {
        /// Memory in bytes. The limit of swap follows, unless it is set.
        memory_limit = "memory.limit",
        /// Soft limit of memory in bytes.
        memory_reservation = "memory.reservation",
        /// Memory and swap together in bytes.
        memory_swap = "memory.swap",
        /// Swappiness, 0 to 100 (cgroup v1).
        memory_swappiness = "memory.swappiness",
        /// CPU time as a number of CPUs: the quota for the period.
        cpus = "cpus",
        /// Relative weight of CPU time, 2 to 262144.
        cpu_shares = "cpu.shares",
        /// CPU time in each period, in microseconds.
        cpu_quota = "cpu.quota",
        /// The period of the quota, in microseconds.
        cpu_period = "cpu.period",
        /// CPUs on which the container may run, such as `0-3,8`.
        cpu_cpus = "cpu.cpus",
        /// NUMA nodes of its memory, such as `0-1`.
        cpu_mems = "cpu.mems",
        /// Number of processes and threads.
        pids_limit = "pids.limit",
        /// Order in which the kernel kills when memory runs out: -1000 (never) to 1000 (first).
        oom_score_adj = "oom_score_adj",
        /// Block I/O class of the configuration of nrid, or of the engine.
        blockio_class = "blockio_class",
        /// RDT class.
        rdt_class = "rdt_class",
        ---
        /// Limits of huge pages by page size, such as `2MB`.
        #[schemars(with = "BTreeMap<String, Scalar>")]
        hugepages: Named,
        /// Files of cgroup v2, such as `memory.high`.
        #[schemars(with = "BTreeMap<String, Scalar>")]
        unified: Named,
        /// Environment variables.
        #[schemars(with = "BTreeMap<String, Scalar>")]
        env: Named,
        /// Resource limits of processes by name, such as `nofile`.
        #[schemars(with = "BTreeMap<String, Rlimit>")]
        rlimits: BTreeMap<String, Spanned<Rlimit>>,
        /// Kernel parameters.
        #[schemars(with = "BTreeMap<String, Scalar>")]
        sysctl: Named,
        /// Annotations.
        #[schemars(with = "BTreeMap<String, Scalar>")]
        annotations: Named,
    }
}

fields! {
    /// Limits of what a container may request.
    Limits {
        /// Memory in bytes.
        memory_limit = "memory.limit",
        /// Soft limit of memory in bytes.
        memory_reservation = "memory.reservation",
        /// Memory and swap together in bytes.
        memory_swap = "memory.swap",
        /// CPU time as a number of CPUs.
        cpus = "cpus",
        /// Relative weight of CPU time.
        cpu_shares = "cpu.shares",
        /// Number of processes and threads.
        pids_limit = "pids.limit",
        /// Order in which the kernel kills when memory runs out.
        oom_score_adj = "oom_score_adj",
        ---
        /// Limits of huge pages by page size, such as `2MB`.
        #[schemars(with = "BTreeMap<String, Scalar>")]
        hugepages: Named,
        /// Resource limits of processes by name, such as `nofile`.
        #[schemars(with = "BTreeMap<String, Rlimit>")]
        rlimits: BTreeMap<String, Spanned<Rlimit>>,
    }
}

/// A resource limit of processes: one number for both, or `soft` and `hard`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a number, or { soft: …, hard: … }")]
pub(crate) enum Rlimit {
    /// Both.
    Both(Scalar),
    /// Soft and hard limit.
    Each(RlimitPair),
}

/// Soft and hard limit.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RlimitPair {
    /// What processes have; they may raise it up to `hard`.
    pub soft: Scalar,
    /// The upper limit.
    pub hard: Scalar,
}

/// What a container gets in addition.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Additions {
    /// Environment variables.
    #[schemars(with = "BTreeMap<String, Scalar>")]
    pub env: Named,
    /// Mounts.
    #[schemars(with = "Vec<MountText>")]
    pub mounts: Vec<Spanned<MountText>>,
    /// Device nodes of the host.
    #[schemars(with = "Vec<DeviceText>")]
    pub devices: Vec<Spanned<DeviceText>>,
    /// CDI devices, `vendor/class=name`; a text that is one `${…}` may be a list.
    #[schemars(with = "Vec<String>")]
    pub cdi: Vec<Spanned<String>>,
    /// OCI hooks.
    #[schemars(with = "Vec<HookText>")]
    pub hooks: Vec<Spanned<HookText>>,
    /// Resource limits of processes by name, such as `nofile`.
    #[schemars(with = "BTreeMap<String, Rlimit>")]
    pub rlimits: BTreeMap<String, Spanned<Rlimit>>,
    /// Kernel parameters.
    #[schemars(with = "BTreeMap<String, Scalar>")]
    pub sysctl: Named,
    /// Annotations.
    #[schemars(with = "BTreeMap<String, Scalar>")]
    pub annotations: Named,
}

/// A mount.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MountText {
    /// Path of the host, or what the type needs. May have `${…}`.
    pub source: String,
    /// Path in the container. May have `${…}`.
    pub destination: String,
    /// Type of the file system; default `bind`.
    #[serde(default, rename = "type", deserialize_with = "given")]
    pub kind: Option<String>,
    /// Options; default `rbind`, `ro`.
    #[serde(default, deserialize_with = "given")]
    pub options: Option<Vec<String>>,
}

/// A device node of the host.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeviceText {
    /// Path of the host and of the container. May have `${…}`.
    pub path: String,
}

/// An OCI hook.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HookText {
    /// When it runs.
    pub stage: Stage,
    /// The program on the host.
    pub path: String,
    /// Its arguments, the first of which is its own name.
    #[serde(default)]
    pub args: Vec<String>,
    /// Its environment, `NAME=value`.
    #[serde(default)]
    pub env: Vec<String>,
    /// Seconds until it is killed.
    #[serde(default, deserialize_with = "given")]
    pub timeout: Option<u32>,
}

/// Stages of OCI hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub(crate) enum Stage {
    Prestart,
    CreateRuntime,
    CreateContainer,
    StartContainer,
    Poststart,
    Poststop,
}

/// What a container loses, by name. Hooks, CDI devices and resource limits cannot be removed: NRI
/// has no way to do it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Removals {
    /// Names of environment variables.
    pub env: Vec<String>,
    /// Destinations of mounts.
    pub mounts: Vec<String>,
    /// Paths of device nodes in the container.
    pub devices: Vec<String>,
    /// Kernel parameters.
    pub sysctl: Vec<String>,
    /// Keys of annotations.
    pub annotations: Vec<String>,
}

/// Conditions for the entries that a container loses.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Conditions {
    /// `it.name` and `it.value`.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Option<String>")]
    pub env: Option<Spanned<String>>,
    /// `it.source`, `it.destination`, `it.type` and `it.options`.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Option<String>")]
    pub mounts: Option<Spanned<String>>,
    /// `it.path`, `it.type`, `it.major` and `it.minor`.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Option<String>")]
    pub devices: Option<Spanned<String>>,
    /// `it.name` and `it.value`.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Option<String>")]
    pub sysctl: Option<Spanned<String>>,
    /// `it.name` and `it.value`.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Option<String>")]
    pub annotations: Option<Spanned<String>>,
}
