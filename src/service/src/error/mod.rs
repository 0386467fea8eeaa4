//! Errors of requests, grouped by the party at fault: the caller (engine or wrapper), a plugin, the
//! operator (the node's configuration), or the host.
//!
//! The errors of single modules are sources of these errors. Start from [`Error`]; [`Error::line`]
//! is the line that an engine shows.

mod resources;

pub use resources::ResourceError;

use crate::{
    bundle::{config_json::BundleError, hook_injection::InjectError},
    host::{
        adjustment_paths::UnprobedPaths, cdi::AdjustmentError, classes::ClassError,
        descriptors::DescriptorLimit, error_chain::chain, file_access::FileSystem,
        runtime::LookUpError,
    },
    state::{key::ContainerKey, store::StoreError},
};
use nri_adaptation::{AdaptError, Fault};
use nri_api::set_by;
use nri_config::UnknownLogLevel;
use nri_locate::{BreakGlassHint, ConfigFileError};
use nri_spec::{OciConfigError, WrongType, capability::UnsupportedFields};
use nri_trust::Untrusted;
use std::{collections::BTreeSet, io, path::PathBuf, process::ExitStatus, time::Duration};

/// A request that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request of the engine, or of another caller of the runtime, is wrong.
    #[error(transparent)]
    Caller(#[from] CallerError),
    /// A plugin refused, or requested something that cannot be performed.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// The configuration of the node has to change.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// The host failed: disk, file systems, control groups, the low-level runtime.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// A request that cannot be served as it was made.
#[derive(Debug, thiserror::Error)]
pub enum CallerError {
    /// The bundle cannot be used.
    #[error(transparent)]
    Bundle(BundleError),
    /// `config.json` is not an OCI config.
    #[error("{}", file.display())]
    Config {
        /// Path of `config.json`.
        file: PathBuf,
        /// Syntax, size or depth.
        source: OciConfigError,
    },
    /// Runtimes would not see a change of `config.json`.
    #[error("{} cannot be adjusted", file.display())]
    Unchangeable {
        /// Path of `config.json`.
        file: PathBuf,
        /// The key that cannot be changed.
        source: OciConfigError,
    },
    /// A field of `config.json` has a wrong type.
    #[error("{}", file.display())]
    ConfigField {
        /// Path of `config.json`.
        file: PathBuf,
        /// The field.
        source: WrongType,
    },
    /// No message to plugins can hold the container, whichever plugins are connected now.
    #[error("the container takes {size} bytes, more than a message to a plugin can hold")]
    LargeMessage {
        /// Size in bytes.
        size: u64,
    },
    /// The level of the log is unknown.
    #[error(transparent)]
    LogLevel(#[from] UnknownLogLevel),
    /// Our hook cannot be added to `hooks` of `config.json`.
    #[error(transparent)]
    Hooks(#[from] InjectError),
    /// An event failed, and the caller is at fault.
    #[error(transparent)]
    Event(Box<AdaptError>),
    /// The id cannot be the name of a file. Runtimes and `nrid` name files after ids.
    #[error("the container id is not a valid file name")]
    InvalidId,
    /// The limits and CPUs of one container would be those of another one, too.
    #[error(
        "cgroup {}: {place} that of container {other}, and limits and CPUs of a container hold for \
         all below its cgroup: choose another cgroup parent",
        cgroup.display()
    )]
    ForeignCgroup {
        /// Path of the cgroup below the root of each hierarchy.
        cgroup: PathBuf,
        /// Where it is: `it is`, `it is inside` or `it contains`.
        place: &'static str,
        /// Id of the other container.
        other: String,
    },
    /// The request came without the descriptor of the bundle's directory.
    #[error("the wrapper passed no bundle directory")]
    NoBundle,
    /// The wrapper reported a result (`Finished`), but no verb is in progress on this connection.
    #[error("finished: no verb is in progress on this connection")]
    NoVerb,
    /// Another process is creating a container of the same id.
    #[error("process {pid} is still creating a container of this id: wait for it, or end it")]
    CreationInProgress {
        /// Process id of the other creation's wrapper; 0 if unknown.
        pid: i32,
    },
    /// A process has begun a verb of the container, and is stopped.
    #[error(
        "process {pid} has begun a verb of this container, and is stopped: continue it with 'kill \
         -CONT {pid}', or call delete with --force, which kills it"
    )]
    Stopped {
        /// Process id.
        pid: i32,
    },
    /// The hook names a record that does not exist.
    #[error("unknown record {0}: the container was not created through nrid")]
    UnknownRecord(String),
    /// The hook belongs to a creation that has ended.
    #[error("hook: the creation of the container has ended")]
    CreationOver,
    /// The hook did not get the container's state as JSON.
    #[error("hook: invalid state of the container")]
    HookState(#[source] serde_json::Error),
    /// A flag of `update` cannot be parsed.
    #[error(transparent)]
    UpdateArguments(#[from] UpdateArgumentError),
    /// The resources of `update` are not JSON.
    #[error("update: resources")]
    Resources(#[source] serde_json::Error),
    /// The resources of `update` are JSON, but not an object.
    #[error("update: resources: not an object")]
    ResourcesNotAnObject,
    /// The resources of `update` are nested too deeply.
    #[error("update: resources")]
    ResourcesTooDeep(#[source] OciConfigError),
    /// A field in the resources of `update` has a wrong type.
    #[error("update")]
    ResourceField(#[source] WrongType),
}

/// An argument of `update` that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateArgumentError {
    /// The value of a flag is not a number.
    #[error("update: {flag}: {value:?} is not a number")]
    Number {
        /// The flag.
        flag: String,
        /// The flag's value.
        value: String,
    },
    /// A flag has no value.
    #[error("update: {0} needs a value")]
    Missing(String),
}

/// A refusal by a plugin, or a request of a plugin that cannot be performed.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// An event failed, and a plugin is at fault.
    #[error(transparent)]
    Event(Box<AdaptError>),
    /// The adjustment cannot be applied to the OCI config.
    #[error(transparent)]
    Adjustment(#[from] AdjustmentError),
    /// The low-level runtime or the kernel cannot do what plugins requested.
    #[error(transparent)]
    Unsupported(#[from] UnsupportedFields),
    /// The adjusted OCI config has a field of a wrong type.
    #[error("adjusted config.json")]
    AdjustedField(#[source] WrongType),
    /// A plugin set or removed an annotation by which plugins receive facts.
    #[error(
        "annotations[{key}]{}: reserved for facts about containers, plugins cannot change it",
        set_by(plugins.iter().map(String::as_str))
    )]
    ReservedAnnotation {
        /// Key of the annotation.
        key: String,
        /// The plugins that set or removed it.
        plugins: BTreeSet<String>,
    },
    /// The adjusted OCI config is too large to be read again.
    #[error(
        "the adjustments make its config.json larger than {limit} bytes: \
         from {before} bytes to {after}"
    )]
    ConfigTooLarge {
        /// Bytes before the adjustments.
        before: usize,
        /// Bytes after the adjustments.
        after: usize,
        /// Maximum number of bytes.
        limit: u64,
    },
    /// Resources that plugins requested cannot be set.
    #[error(transparent)]
    Resources(ResourceError),
    /// Plugins requested the update of another container with this event, and it failed.
    #[error("update of container {container:?}")]
    Update {
        /// Id by which plugins know the other container.
        container: String,
        /// Cause of the failure.
        source: ResourceError,
    },
}

/// A configuration that does not allow the request.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// An event failed, and the operator is at fault.
    #[error(transparent)]
    Event(Box<AdaptError>),
    /// A required plugin is missing, so that every creation fails until it is there, and so does
    /// every update of what it has set.
    #[error("{0}: 'nrictl status' shows why; {BreakGlassHint}")]
    RequiredMissing(Box<AdaptError>),
    /// The limit of open files is too low for another container.
    #[error(transparent)]
    Descriptors(#[from] DescriptorLimit),
    /// A block I/O or RDT class is not defined.
    #[error(transparent)]
    Class(#[from] ClassError),
    /// The configuration cannot be loaded again.
    #[error("{0}; nrid keeps the previous configuration, which wrappers follow, too")]
    Reload(#[source] ConfigFileError),
    /// The configuration has a mistake that a start would correct.
    #[error("{0}; nrid keeps the previous configuration")]
    ReloadMistake(#[source] ConfigFileError),
    /// No program is named for a restart, and the path of the running one is unknown.
    #[error("the path of the running nrid is unknown: name a program")]
    ProgramUnknown,
    /// The requested program cannot replace the running one.
    #[error("{} cannot replace the running nrid", program.display())]
    Takeover {
        /// Path of the program.
        program: PathBuf,
        /// Cause of the failure.
        source: TakeoverError,
    },
}

/// A program that does not pass `nrid --check`.
#[derive(Debug, thiserror::Error)]
pub enum TakeoverError {
    /// Other users could replace the program.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    /// The program cannot be run.
    #[error("{0}")]
    Run(#[source] io::Error),
    /// The program did not end in time.
    #[error("no reply within {0:?}")]
    Timeout(Duration),
    /// Threads of the running program wait for these file systems.
    #[error("a file system hangs, and nrid waits for it: {}", list(.0))]
    FileSystem(Vec<FileSystem>),
    /// The program would not start without this plugin.
    #[error(
        "the required plugin of {} refuses its configuration: {why}; correct that, then \
         `nrictl reload`",
        .file.display()
    )]
    Plugin {
        /// File of the plugin.
        file: PathBuf,
        /// Why it refuses the configuration.
        why: String,
    },
    /// The program failed without a message.
    #[error("--check ended without a message: {0}")]
    Failed(ExitStatus),
    /// The program printed why it cannot run.
    #[error("{0}")]
    Refused(String),
}

fn list(file_systems: &[FileSystem]) -> String {
    file_systems.iter().map(FileSystem::to_string).collect::<Vec<_>>().join(", ")
}

/// A failure of the host.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// `config.json` cannot be read.
    #[error(transparent)]
    Bundle(BundleError),
    /// The bundle for the runtime cannot be written, or the runtime cannot see it.
    #[error("bundle {}", dir.display())]
    OwnBundle {
        /// Path of the directory.
        dir: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The directory of the runtime's containers cannot be looked up.
    #[error("root directory {} of the runtime cannot be looked up", root.display())]
    RuntimeRoot {
        /// Path of the directory.
        root: PathBuf,
        /// Cause of the failure.
        source: LookUpError,
    },
    /// A record cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The marker for `exec` cannot be written.
    #[error("cannot write the marker for exec")]
    ExecMarker(#[source] io::Error),
    /// Paths that an adjustment names cannot be checked.
    #[error("cannot check the mounts and devices of adjustments")]
    Paths(#[from] UnprobedPaths),
    /// Resources cannot be set, or are not effective.
    #[error(transparent)]
    Resources(ResourceError),
}

impl HostError {
    /// Returns the error of a failed look-up of this container in its runtime's root directory.
    pub fn unreadable_root(key: &ContainerKey, source: LookUpError) -> Self {
        Self::RuntimeRoot { root: key.root.clone(), source }
    }
}

impl From<AdaptError> for Error {
    fn from(error: AdaptError) -> Self {
        let fault = error.fault();
        let is_required =
            matches!(error, AdaptError::RequiredMissing { .. } | AdaptError::RequiredOwner { .. });
        let error = Box::new(error);
        match fault {
            Fault::Operator if is_required => OperatorError::RequiredMissing(error).into(),
            Fault::Caller => CallerError::Event(error).into(),
            Fault::Operator => OperatorError::Event(error).into(),
            Fault::Plugin => PluginError::Event(error).into(),
        }
    }
}

impl From<BundleError> for Error {
    fn from(error: BundleError) -> Self {
        match error {
            BundleError::Hangs(_) => HostError::Bundle(error).into(),
            _ => CallerError::Bundle(error).into(),
        }
    }
}

impl From<ResourceError> for Error {
    fn from(error: ResourceError) -> Self {
        match error {
            ResourceError::Class(error) => OperatorError::Class(error).into(),
            ResourceError::TooDeep(error) => CallerError::ResourcesTooDeep(error).into(),
            ResourceError::UnknownContainer
            | ResourceError::NotUpdatable(_)
            | ResourceError::Status(_)
            | ResourceError::Shadow
            | ResourceError::Unsupported(_)
            | ResourceError::NoControlFile { .. }
            | ResourceError::NoController(_) => PluginError::Resources(error).into(),
            error => HostError::Resources(error).into(),
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        HostError::Store(error).into()
    }
}

impl From<ClassError> for Error {
    fn from(error: ClassError) -> Self {
        OperatorError::Class(error).into()
    }
}

impl Error {
    /// Returns the error with its causes as one printable line, which names the container once. An
    /// empty id stands for no container.
    pub fn line(&self, container: &str) -> String {
        line(container, &chain(self))
    }
}

/// Formats an error as one line, because engines show one line. Adds the container's id, unless the
/// message already contains it.
pub(crate) fn line(container: &str, message: &str) -> String {
    let message = nri_values::printable(message);
    let is_of_id = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    if container.is_empty() || message.split(|c| !is_of_id(c)).any(|word| word == container) {
        return message.into_owned();
    }
    format!("container {container:?}: {message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_an_error_names_the_container_once() {
        for (message, expected) in [
            ("no room", "container \"c1\": no room"),
            (
                "plugin 10-a refused CREATE_CONTAINER of c1: no",
                "plugin 10-a refused CREATE_CONTAINER of c1: no",
            ),
            ("validator v rejected \"c1\"", "validator v rejected \"c1\""),
            // Ids of other containers that begin with this id.
            ("update of c11", "container \"c1\": update of c11"),
            ("update of c1-x", "container \"c1\": update of c1-x"),
        ] {
            assert_eq!(line("c1", message), expected);
        }
        assert_eq!(line("", "no room"), "no room");
    }

    #[test]
    fn an_error_is_one_line_with_its_causes() {
        let source = serde_json::from_str::<u8>("x\n").unwrap_err();
        let error = Error::from(CallerError::Resources(source));
        assert_eq!(
            error.line("c1"),
            "container \"c1\": update: resources: expected value at line 1 column 1"
        );
    }
}
