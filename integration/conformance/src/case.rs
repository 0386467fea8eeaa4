//! A case: plugins with their replies, and steps that run containers and check what became of them.
//! Cases are TOML files; the README describes the format. This module only parses them.

use crate::Error;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// A case, as its file has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Name: group and file name, such as `adjust/env`.
    #[serde(skip)]
    pub id: String,
    /// What a runtime has to do, in one line.
    pub about: String,
    /// First version of NRI in which runtimes can do it.
    #[serde(default)]
    pub since: Option<String>,
    /// Plugins, in any order.
    #[serde(default)]
    pub plugin: Vec<PluginScript>,
    /// Steps, in order.
    pub step: Vec<Step>,
}

/// A plugin of a case.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginScript {
    /// Index and name, `NN-name`.
    pub id: String,
    /// Events that the plugin subscribes to; all that the runtime knows if empty.
    #[serde(default)]
    pub events: Vec<String>,
    /// Whether a step connects the plugin; otherwise it is connected before the first step.
    #[serde(default)]
    pub later: bool,
    /// Whether the plugin knows only `StateChange`, as plugins on stubs before NRI v0.12.
    #[serde(default)]
    pub old: bool,
    /// Replies; the first that matches a request is sent, else an empty one.
    #[serde(default)]
    pub reply: Vec<Reply>,
}

/// What a plugin does at a request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// Method of the protocol, such as `CreateContainer`.
    pub on: String,
    /// Container of the case that the request is about; any if absent.
    #[serde(default)]
    pub container: Option<String>,
    /// Adjustment, as protojson.
    #[serde(default)]
    pub adjust: Option<Value>,
    /// Updates, as protojson; `containerId` is a container of the case.
    #[serde(default)]
    pub update: Vec<Value>,
    /// Error of the plugin.
    #[serde(default)]
    pub error: Option<String>,
    /// Reason with which a validator rejects the adjustment.
    #[serde(default)]
    pub reject: Option<String>,
    /// Never reply.
    #[serde(default)]
    pub hang: bool,
    /// Close the connection instead of a reply.
    #[serde(default)]
    pub disconnect: bool,
}

/// A step of a case.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Step {
    /// Creates and starts a container.
    Run(Run),
    /// Updates a container's resources, as an engine's user does.
    Update {
        /// The container.
        container: String,
        /// New limit in bytes.
        memory: i64,
        /// Texts that the error must have; success is required if empty.
        #[serde(default)]
        fails: Vec<String>,
    },
    /// Stops a container.
    Stop {
        /// The container.
        container: String,
    },
    /// Removes a container, and its pod.
    Remove {
        /// The container.
        container: String,
    },
    /// Connects a plugin.
    Connect {
        /// The plugin.
        plugin: String,
    },
    /// Requires that the runtime ends the session of a plugin that connects.
    Refused {
        /// The plugin.
        plugin: String,
    },
    /// Closes a plugin's connection.
    Disconnect {
        /// The plugin.
        plugin: String,
    },
    /// A plugin calls `UpdateContainers`.
    Request(Request),
    /// Checks a container.
    Check(Box<Check>),
    /// Checks which requests a plugin has received.
    Events(Events),
    /// Checks fields of the last request of a kind that a plugin has received.
    Received(Received),
    /// Checks whether a plugin's session is open.
    Session {
        /// The plugin.
        plugin: String,
        /// Whether it has to be open.
        open: bool,
    },
}

/// A container to run.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Its name in the case.
    pub container: String,
    /// Number of containers, named `NAME-0` and so on if it is not 1.
    #[serde(default)]
    pub count: Option<usize>,
    /// Variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Length of one more variable.
    #[serde(default)]
    pub padding: usize,
    /// Memory limit in bytes.
    #[serde(default)]
    pub memory: Option<i64>,
    /// Texts that the error must have; success is required if empty.
    #[serde(default)]
    pub fails: Vec<String>,
    /// Whether the container may run or not: what is checked are plugins.
    #[serde(default)]
    pub either: bool,
}

/// An unsolicited update.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The plugin that requests it.
    pub plugin: String,
    /// Updates, as protojson; `containerId` is a container of the case.
    #[serde(default)]
    pub update: Vec<Value>,
    /// Containers to evict.
    #[serde(default)]
    pub evict: Vec<String>,
    /// Containers whose updates the runtime must report as failed.
    #[serde(default)]
    pub failed: Vec<String>,
}

/// What a container must have. Whatever is absent is not checked.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The container.
    pub container: String,
    /// Whether its process runs.
    #[serde(default)]
    pub running: Option<bool>,
    /// Command line of its process.
    #[serde(default)]
    pub args: Option<Vec<String>>,
    /// Variables of its process; `false` for one that must be absent.
    #[serde(default)]
    pub env: BTreeMap<String, Value>,
    /// File system types by mount point; `false` for one that must be absent.
    #[serde(default)]
    pub mounts: BTreeMap<String, Value>,
    /// Soft and hard limits by name in `/proc/PID/limits`.
    #[serde(default)]
    pub rlimits: BTreeMap<String, [u64; 2]>,
    /// Device numbers, `c 1:3`, by path in the container.
    #[serde(default)]
    pub devices: BTreeMap<String, Value>,
    /// Content of files of the container.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Resources in the cgroups, by the field's name.
    #[serde(default)]
    pub cgroup: BTreeMap<String, i64>,
    /// `/proc/PID/oom_score_adj`.
    #[serde(default)]
    pub oom_score_adj: Option<i64>,
    /// Values of the OCI config by JSON pointer; `false` for one that must be absent.
    #[serde(default)]
    pub config: BTreeMap<String, Value>,
}

/// Requests that a plugin must have received.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Events {
    /// The plugin.
    pub plugin: String,
    /// Container that the requests are about, including those about its pod; all if absent.
    #[serde(default)]
    pub container: Option<String>,
    /// Whether to leave out requests about pods.
    #[serde(default)]
    pub without_pods: bool,
    /// Names of the requests in order. Any of several lists, where the protocol permits several.
    pub are: Vec<Vec<String>>,
}

/// Fields of a request that a plugin must have received.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Received {
    /// The plugin.
    pub plugin: String,
    /// The request.
    pub event: String,
    /// Container that the request is about.
    #[serde(default)]
    pub container: Option<String>,
    /// Values by JSON pointer into the message in protojson. `true` requires any value, `false`
    /// none. A list matches if it contains all the given items.
    #[serde(default)]
    pub fields: Map<String, Value>,
    /// Names of containers that `Synchronize` must have told, in all of its parts.
    #[serde(default)]
    pub containers: Vec<String>,
    /// Names of containers that it must not have told.
    #[serde(default)]
    pub without: Vec<String>,
    /// Lowest number of requests of this kind.
    #[serde(default)]
    pub at_least: Option<usize>,
}

/// Reads the cases in a directory and its folders, ordered by name.
///
/// # Errors
/// If a file cannot be read or is no case.
pub fn load(dir: &Path) -> Result<Vec<Case>, Error> {
    let mut files = Vec::new();
    collect(dir, &mut files)?;
    files.sort();
    files.iter().map(|path| parse(dir, path)).collect()
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    for entry in fs::read_dir(dir).map_err(Error::file(dir))? {
        let path = entry.map_err(Error::file(dir))?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "toml") {
            files.push(path);
        }
    }
    Ok(())
}

fn parse(dir: &Path, path: &Path) -> Result<Case, Error> {
    let text = fs::read_to_string(path).map_err(Error::file(path))?;
    let mut case: Case = toml::from_str(&text)
        .map_err(|source| Error::Toml { path: path.to_owned(), source: Box::new(source) })?;
    let relative = path.strip_prefix(dir).unwrap_or(path).with_extension("");
    case.id = relative.to_string_lossy().into_owned();
    Ok(case)
}
