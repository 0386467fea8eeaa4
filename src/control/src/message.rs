//! The messages: JSON objects. Unknown fields are ignored, so a field may be added without a new
//! [`PROTOCOL`]; any other change needs a new version.

use crate::{
    describe::{Describe, EncodedDescription},
    plugin_status::PluginStatus,
};
use nri_args::verbs::Verb;
use nri_files::{MissedPlugin, OsText, UncleanEnd};
use serde::{Deserialize, Serialize};

/// Version of the messages in this file.
pub const PROTOCOL: u32 = 1;

/// A message with the versions of its sender.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Versioned<T> {
    /// [`PROTOCOL`] of the sender.
    pub protocol: u32,
    /// Program version of the sender; empty if the sender does not give it.
    #[serde(default)]
    pub version: String,
    /// The message.
    pub message: T,
}

impl<T> Versioned<T> {
    /// Returns a message with the versions of this program.
    pub fn ours(message: T) -> Self {
        Self { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").to_owned(), message }
    }
}

/// Request of a client. [`Request::Stop`], [`Request::Restart`] and the reply [`Reply::Done`] are
/// the same in all versions of the protocol, so that each release can replace any other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// A wrapper is about to run a verb. If the verb has a bundle, the descriptor of its directory
    /// is sent with the message.
    /// Replies: proceed, bypass, refused.
    Begin(Box<Begin>),
    /// The verb of [`Request::Begin`] has ended; sent on the same connection. Replies: done, or
    /// refused: the wrapper then reports the verb as failed, or, if the runtime has failed, adds
    /// the message to the error of the runtime.
    Finished(Finished),
    /// An OCI hook runs. Replies: done, refused.
    Hook(Box<Hook>),
    /// A sign of life, for which `nrid` does no work. Reply: done. An `nrid` that does not know the
    /// request closes the connection; see [`Client::ping`](crate::Client::ping).
    Ping,
    /// Status of `nrid`. Reply: status.
    Status,
    /// Compare the resources of containers with their cgroups. Reply: verified.
    Verify {
        /// Ids, else names, else prefixes of ids. If empty, all containers that have a process.
        ids: Vec<String>,
    },
    /// Describe containers or pods. Replies: description, or refused.
    Describe(Describe),
    /// Change the level of the log until the next reload or start. Replies: done, or refused (the
    /// level is unknown). Only for an `nrid` whose status has [`Status::log_level`].
    LogLevel {
        /// A level, or a list of levels, as in the configuration; `None` for that of the
        /// configuration.
        level: Option<String>,
    },
    /// End cleanly. Reply: done. The connection stays open until the process has ended.
    Stop,
    /// Read the configuration and the plugin directory again. Replies: reloaded, or refused
    /// (the configuration is invalid, and the previous one stays effective).
    Reload,
    /// End cleanly and continue as the installed program, in the same process and with the same
    /// sockets. Replies: done (the connection stays open until the installed program takes over),
    /// or refused (that program does not exist or cannot run, and nothing has changed).
    Restart {
        /// The program. Default: the path from which this `nrid` was started.
        #[serde(default)]
        program: Option<OsText>,
    },
}

/// Reply of `nrid`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Run the real runtime, and report with [`Request::Finished`] unless the wrapper becomes the
    /// runtime (`run`, `restore`, and where [`Substitute::exec`] is set).
    Proceed(Substitute),
    /// Run the real runtime as it was called, without a report.
    Bypass,
    /// Do not run the real runtime; fail with this message, which is one line.
    Refused {
        /// Error message, which names plugin, field, container and remedy.
        message: String,
    },
    /// The request was performed.
    Done,
    /// Reply to [`Request::Status`].
    Status(Box<Status>),
    /// Reply to [`Request::Verify`].
    Verified(Vec<Verified>),
    /// Reply to [`Request::Describe`].
    Description(EncodedDescription),
    /// Reply to [`Request::Reload`].
    Reloaded(Box<Reloaded>),
    /// The request has a protocol version that this `nrid` does not support.
    OtherVersion {
        /// Program version of this `nrid`.
        version: String,
        /// Whether the installed program is about to replace this `nrid` and to serve new
        /// connections.
        #[serde(default)]
        restarting: bool,
    },
}

/// A verb that is about to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// The verb.
    pub verb: Verb,
    /// Container id, as given.
    pub id: String,
    /// The real runtime, absolute.
    pub runtime: OsText,
    /// `--root`, made absolute; `None` if it was not given.
    pub root: Option<OsText>,
    /// Options before the verb, as given, without `argv[0]` and the wrapper's own options.
    pub globals: Vec<OsText>,
    /// Arguments after the verb, as given.
    pub arguments: Vec<OsText>,
    /// Bundle directory, absolute, if the verb has one.
    pub bundle: Option<OsText>,
    /// Name of the OCI config in the bundle (`config.json`, or crun's `--config`).
    pub config: Option<OsText>,
    /// Working directory.
    pub cwd: OsText,
    /// Environment, `NAME=value`.
    pub environment: Vec<OsText>,
    /// `update`: content of the file of `--resources`, or of stdin.
    pub resources: Option<String>,
    /// Whether `run` or `restore` has `--detach`, or `delete` has `--force`.
    pub flag: bool,
    /// The hook program, absolute; `None` if it was not found.
    pub hook: Option<OsText>,
    /// Whether the wrapper can become the runtime, so that `nrid` follows its process instead of
    /// waiting for [`Request::Finished`]; see [`Substitute::exec`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
}

/// Replacements in the call of the real runtime.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Substitute {
    /// Arguments after the verb.
    pub arguments: Option<Vec<OsText>>,
    /// Content of stdin.
    pub stdin: Option<String>,
    /// Whether the wrapper is to become the runtime, without a report. Only in replies to requests
    /// with [`Begin::follow`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exec: bool,
}

/// End of a verb.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// Exit status of the real runtime.
    pub exit: Exit,
    /// Content of the `--pid-file` after a `create`.
    pub pid: Option<i32>,
    /// Last error that the runtime wrote to the file of `--log`, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Exit status of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// Exit code.
    Code(i32),
    /// Signal that ended the process.
    Signal(i32),
    /// The process could not be started.
    NotStarted,
}

impl Exit {
    /// Whether the verb succeeded.
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }
}

/// Kind of an injected hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HookKind {
    /// Container created, process not started.
    CreateRuntime,
    /// Process started.
    Poststart,
    /// Container deleted.
    Poststop,
}

/// A call of an OCI hook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hook {
    /// Kind of the hook.
    pub kind: HookKind,
    /// Key of the container's record, from the hook's arguments.
    pub record: String,
    /// The OCI state, as given on stdin.
    pub state: String,
}

/// Status of `nrid`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Status {
    /// Program version.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Seconds since `nrid` started.
    pub uptime: u64,
    /// The configuration file that `nrid` read, if any.
    pub config: Option<OsText>,
    /// Sockets for plugins.
    pub sockets: Vec<OsText>,
    /// Plugins, in the order of their index.
    pub plugins: Vec<PluginStatus>,
    /// Directory of the plugins that `nrid` launches; `None` while an engine launches them.
    #[serde(default)]
    pub plugin_dir: Option<OsText>,
    /// Number of pods.
    pub pods: usize,
    /// Number of containers, including those that have ended.
    pub containers: usize,
    /// Number of containers that have ended; `None` from an `nrid` that does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_containers: Option<usize>,
    /// Path of the program when `nrid` started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<OsText>,
    /// Whether the file at the path of `program` was replaced or removed since `nrid` started.
    #[serde(default)]
    pub program_replaced: bool,
    /// Reason why the last restart failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_error: Option<String>,
    /// SHA-256 of the configuration file that `nrid` read, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_digest: Option<String>,
    /// `apply` or `shadow`; empty from an `nrid` without modes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mode: String,
    /// Changes that a reload would make for files of the plugin directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub due: Vec<PluginChange>,
    /// Conditions of the host that limit what `nrid` can do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Values of `match` of the policies (`[[plugin]]`) that match no known plugin.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle_policies: Vec<String>,
    /// Reason why `due` and `idle_policies` are unknown: the plugin directory cannot be listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin_dir_error: Option<String>,
    /// What `nrid` has inherited from the process that started it, and cannot reset.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inherited: Vec<Inherited>,
    /// Plugins without which existing containers were created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<MissedContainers>,
    /// The address at which metrics are served, in the form of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
    /// The log file; `None` if the log is written to standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<OsText>,
    /// Whether the log goes to journald: `journalctl -t nrid`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub log_is_journal: bool,
    /// Why lines go to the file `log` now, although the log should go to journald.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_error: Option<String>,
    /// Level of the log: that of the configuration, or of [`Request::LogLevel`] since the last
    /// reload or start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<String>,
    /// Level of the log in the configuration, if it differs from `log_level`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured_log_level: Option<String>,
    /// Reason why `nrid` cannot write records to the state directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_dir_error: Option<String>,
    /// Values of `match` of the policies with `required` that no active plugin matches: creations
    /// are refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_required: Vec<String>,
    /// Files of the plugin directory that are named like plugins, and that a reload ignores.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<PluginChange>,
    /// Number of containers whose bundles an `nrid` has changed, as those did that had no bundles
    /// of their own.
    #[serde(default)]
    pub with_edited_bundle: usize,
    /// Last end of an `nrid` of this state directory that was not a clean stop, unless there was a
    /// clean one since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unclean_end: Option<UncleanEnd>,
}

/// Number of containers that were created without a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MissedContainers {
    /// Name of the plugin: `NN-name`.
    pub plugin: String,
    /// Number of existing containers that were created without the plugin.
    pub containers: usize,
}

/// A restriction that a process inherits from its parent, and that cannot be reset.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Inherited {
    /// The restriction, such as `no_new_privs is set`.
    pub what: String,
    /// What follows from it.
    pub effect: String,
    /// What an administrator can do.
    pub remedy: String,
}

/// Result of a reload.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Reloaded {
    /// The configuration file that the reload read, if any.
    pub config: Option<OsText>,
    /// Whether the configuration has changed.
    pub changed: bool,
    /// Changes of launched plugins.
    pub plugins: Vec<PluginChange>,
    /// Keys whose new value takes effect only after `nrictl restart`, with the reason.
    pub needs_restart: Vec<String>,
    /// Further remarks.
    pub notes: Vec<String>,
    /// Paths in the configuration at which nothing usable exists, with key and effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// Change of a plugin in the plugin directory: already made, or pending until the next reload.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PluginChange {
    /// Name of the plugin: `NN-name`.
    pub name: String,
    /// One of kept, launch, launched, relaunch, relaunched, end, ended, failed, unusable, ignored,
    /// refused: the plugin has refused its configuration, and runs with the previous one.
    pub change: String,
    /// The reason for the change.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// File with the configuration that the plugin runs with after a reload; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<OsText>,
    /// Warnings that the plugin wrote when a reload launched it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Comparison of a container's resources with its cgroup.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Verified {
    /// Id of the container, or the requested id if none matches.
    pub id: String,
    /// Name of the container; may be empty.
    pub name: String,
    /// Engine of the container.
    pub engine: String,
    /// Id of the container's pod; empty if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// Plugins without which the container was created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<MissedPlugin>,
    /// Reason why nothing was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether nothing was compared because the container's process has ended: it has no cgroup
    /// left, or soon has none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
    /// Comparisons, one per cgroup file.
    pub settings: Vec<VerifiedResource>,
    /// Fields for which this host has no cgroup file.
    pub nowhere: Vec<String>,
}

/// Comparison of one cgroup file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifiedResource {
    /// The field of the resources.
    pub field: String,
    /// The file.
    pub file: OsText,
    /// Expected content.
    pub wanted: String,
    /// Content of the file, or the reason why it cannot be read.
    pub found: Result<String, String>,
    /// Whether the content is equivalent to the expected content: the kernel rounds some values,
    /// and accepts several forms of others.
    #[serde(alias = "in_force")]
    pub effective: bool,
    /// The plugin that set the field, or the field in `follows`; `None` if the engine did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The field from which the value follows, if no one has set this one: a limit of swap follows
    /// a limit of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<String>,
}
