//! What is said. A message is a JSON object; fields that the other end does not know are ignored,
//! so that a field may be added without a new [`PROTOCOL`]; anything else that changes raises it.

use crate::OsText;
use serde::{Deserialize, Serialize};

/// Version of the messages in this file.
pub const PROTOCOL: u32 = 1;

/// A message with the version that its sender speaks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Versioned<T> {
    /// [`PROTOCOL`] of the sender.
    pub protocol: u32,
    /// Program version of the sender; empty if it does not tell.
    #[serde(default)]
    pub version: String,
    /// The message.
    pub message: T,
}

impl<T> Versioned<T> {
    /// A message of ours.
    pub fn ours(message: T) -> Self {
        Self { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").to_owned(), message }
    }
}

/// What a client asks. [`Request::Stop`], [`Request::Restart`] and the answer [`Reply::Done`] are
/// the same in all protocols: they are how one release gets rid of another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// A wrapper is about to run a verb. One descriptor, the bundle directory, where there is one.
    /// Answers: proceed, bypass, refused.
    Begin(Box<Begin>),
    /// On the same connection: the verb is over. Answer: done, or refused (the verb is to be
    /// reported as failed).
    Finished(Finished),
    /// An OCI hook runs. Answers: done, refused.
    Hook(Box<Hook>),
    /// What there is. Answer: status.
    Status,
    /// Compare what containers are to have with what their control groups hold. Answer: verified.
    Verify {
        /// Ids, or beginnings of them; none: all containers that have a process.
        ids: Vec<String>,
    },
    /// End cleanly. Answer: done, then the connection stays open until the process is gone.
    Stop,
    /// Read the configuration anew, and look into the plugin directory. Answer: reloaded, or
    /// refused (the configuration is wrong, and the one of before holds).
    Reload,
    /// End cleanly and go on as the program that is installed now, in the same process and with the
    /// same sockets. Answer: done, then the connection stays open until the other program takes
    /// over; or refused (there is none, or it does not run, and nothing has changed).
    Restart {
        /// The program; none: the one of the path that this `nrid` was started from.
        #[serde(default)]
        program: Option<OsText>,
    },
}

/// What `nrid` answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Run the real runtime, report with [`Request::Finished`] (unless the verb is exec'ed).
    Proceed(Substitute),
    /// Run the real runtime as it was called; report nothing.
    Bypass,
    /// Do not run it; fail with this one line.
    Refused {
        /// Names plugin, field, container and what to do.
        message: String,
    },
    /// It is done.
    Done,
    /// Answer to [`Request::Status`].
    Status(Box<Status>),
    /// Answer to [`Request::Verify`].
    Verified(Vec<Verified>),
    /// Answer to [`Request::Reload`].
    Reloaded(Box<Reloaded>),
    /// The request was of a protocol that this `nrid` does not speak.
    OtherVersion {
        /// Program version of this `nrid`.
        version: String,
        /// It is about to be replaced by the program that is installed now: whoever connects again
        /// is answered by that.
        #[serde(default)]
        restarting: bool,
    },
}

/// The verbs that carry events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// `create`
    Create,
    /// `run`: execve after the answer; the hook reports the rest.
    Run,
    /// `restore`: as `run`.
    Restore,
    /// `start`
    Start,
    /// `update`
    Update,
    /// `delete`
    Delete,
}

/// A verb that is about to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// Which.
    pub verb: Verb,
    /// Container id, as given.
    pub id: String,
    /// The real runtime, absolute.
    pub runtime: OsText,
    /// `--root`, made absolute; none where it was not given.
    pub root: Option<OsText>,
    /// Global options, as given (before the verb, without `argv[0]` and without our own).
    pub globals: Vec<OsText>,
    /// Everything behind the verb, as given.
    pub arguments: Vec<OsText>,
    /// Bundle directory, absolute; where the verb has one.
    pub bundle: Option<OsText>,
    /// Name of the OCI document in the bundle (`config.json`, or crun's `--config`).
    pub config: Option<OsText>,
    /// Working directory.
    pub cwd: OsText,
    /// Environment, `NAME=value`.
    pub environment: Vec<OsText>,
    /// `update`: the document of `--resources`, read from its file or from stdin.
    pub resources: Option<String>,
    /// `--detach` of `run` and `restore`; `--force` of `delete`.
    pub flag: bool,
    /// The hook program, absolute, where it was found.
    pub hook: Option<OsText>,
}

/// How to run the real runtime.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Substitute {
    /// In place of everything behind the verb.
    pub arguments: Option<Vec<OsText>>,
    /// In place of stdin.
    pub stdin: Option<String>,
}

/// The verb is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// How the real runtime ended.
    pub exit: Exit,
    /// What stands in the `--pid-file`, after a `create` that has one.
    pub pid: Option<i32>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It could not be started.
    NotStarted,
}

impl Exit {
    /// Whether the verb did what it was asked for.
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }
}

/// The kinds of hooks that we inject.
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

/// An OCI hook that runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hook {
    /// Which.
    pub kind: HookKind,
    /// Record that it belongs to, as written into its arguments.
    pub record: String,
    /// The OCI state, as given on stdin.
    pub state: String,
}

/// What `nrid` has.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Status {
    /// Program version.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Seconds since it started.
    pub uptime: u64,
    /// The configuration file that it read, if any.
    pub config: Option<OsText>,
    /// Its sockets for plugins.
    pub sockets: Vec<OsText>,
    /// Its plugins, in order.
    pub plugins: Vec<PluginStatus>,
    /// The directory of the plugins that it launches; none while they are left to an engine.
    #[serde(default)]
    pub plugin_dir: Option<OsText>,
    /// How many pods it knows.
    pub pods: usize,
    /// How many containers it knows.
    pub containers: usize,
    /// The path of its program when it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<OsText>,
    /// Whether there is another program, or none, at that path now.
    #[serde(default)]
    pub program_replaced: bool,
    /// Why it could not be replaced by the installed program, when that was tried last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_error: Option<String>,
    /// SHA-256 of the configuration file that it read, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_digest: Option<String>,
    /// `apply`, or `shadow`: plugins are asked and nothing changes. Older ones do not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mode: String,
    /// What a reload would do with files of the plugin directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub due: Vec<PluginChange>,
    /// Policies (`[[plugin]] match`) that are about no plugin that it knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle_policies: Vec<String>,
}

/// What a reload did.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Reloaded {
    /// The configuration file that it read, if any.
    pub config: Option<OsText>,
    /// Whether it says something else than before.
    pub changed: bool,
    /// What became of each launched plugin.
    pub plugins: Vec<PluginChange>,
    /// Keys whose new value takes `nrictl restart`, with the reason.
    pub needs_restart: Vec<String>,
    /// What else is to be known.
    pub notes: Vec<String>,
}

/// What was, or is to be, done with one file of the plugin directory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PluginChange {
    /// Its name: `NN-name`.
    pub name: String,
    /// In a word: kept, launch, launched, relaunch, relaunched, end, ended, failed, unusable.
    pub change: String,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// One container, and what its control groups hold.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Verified {
    /// Its id, or what was asked for.
    pub id: String,
    /// Its name, where it has one.
    pub name: String,
    /// Its engine.
    pub engine: String,
    /// Why nothing was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its resources, file by file.
    pub settings: Vec<VerifiedSetting>,
    /// Fields for which this host has no file.
    pub nowhere: Vec<String>,
}

/// One file of a control group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifiedSetting {
    /// The field of the resources.
    pub field: String,
    /// The file.
    pub file: OsText,
    /// What it is to hold.
    pub wanted: String,
    /// What it holds, or why it cannot be read.
    pub found: Result<String, String>,
    /// Whether that is right: the kernel rounds, and has more than one way to say some things.
    pub in_force: bool,
    /// The plugin that set it; none: the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// One plugin.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PluginStatus {
    /// `NN-name`
    pub name: String,
    /// Whether `nrid` launched it.
    pub launched: bool,
    /// Process id, where known.
    pub pid: Option<u32>,
    /// Its state in a word.
    pub state: String,
    /// What went wrong last, if anything did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Names of the events that it is subscribed to.
    pub events: Vec<String>,
}
