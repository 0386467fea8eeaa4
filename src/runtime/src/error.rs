//! [`Error`]: why a request failed.

use nri_adaptation::AdaptError;
use nri_api::PluginId;
use nri_spec::{ApplyError, OciConfigError, WrongType};
use std::io;
use std::path::PathBuf;

/// Reason why a request failed. Its text is one line, and has all causes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A path of the configuration is relative, and would depend on the working directory.
    #[error("{name} is not an absolute path: {}", path.display())]
    RelativePath {
        /// The field of [`RuntimeConfig`](crate::RuntimeConfig).
        name: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// The socket for external plugins cannot be created.
    #[error("socket {}: {source}", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Cause; `AddrInUse` if another process listens on the socket.
        source: io::Error,
    },
    /// A new pod or container without an id.
    #[error("{0} has no id")]
    NoId(&'static str),
    /// A pod that was not run, or was removed.
    #[error("unknown pod {0}")]
    UnknownPod(String),
    /// A container that was not created, or was removed.
    #[error("unknown container {0}")]
    UnknownContainer(String),
    /// A pod or container of this id exists already.
    #[error("{0} exists already")]
    Exists(String),
    /// The `config.json` of the runtime is not one, or is ambiguous where plugins adjust it.
    #[error("config.json of container {container}: {}", chain(source))]
    Config {
        /// The container.
        container: String,
        /// Cause.
        source: OciConfigError,
    },
    /// A field of the runtime's `config.json` or resources has a wrong type.
    #[error("container {container}: {}", chain(source))]
    WrongType {
        /// The container.
        container: String,
        /// Cause; it names the field.
        source: WrongType,
    },
    /// A plugin or validator refused or failed, plugins contradict one another, or a required
    /// plugin is missing.
    #[error("{reason}")]
    Refused {
        /// The plugin that refused, or the second of two that contradict one another.
        plugin: Option<PluginId>,
        /// Event, container or pod, plugins and fields in question.
        reason: String,
    },
    /// What plugins requested cannot be applied to `config.json`.
    #[error("adjustment of container {container}{}: {}", by(plugins), chain(source))]
    Adjustment {
        /// The container.
        container: String,
        /// Plugins that set the fields in question.
        plugins: Vec<String>,
        /// Cause; it names the field.
        source: ApplyError,
    },
    /// The runtime could not perform an update or eviction that plugins requested.
    #[error("{what} of container {container}: {source}")]
    Performed {
        /// `update` or `eviction`.
        what: &'static str,
        /// The container.
        container: String,
        /// Cause, from the runtime's handler.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Returns the text of an error with those of its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Returns the plugins of an adjustment for its error.
fn by(plugins: &[String]) -> String {
    match plugins {
        [] => String::new(),
        [one] => format!(" by plugin {one}"),
        several => format!(" by plugins {}", several.join(", ")),
    }
}

impl From<AdaptError> for Error {
    fn from(error: AdaptError) -> Self {
        Self::Refused { plugin: error.plugin().cloned(), reason: error.to_string() }
    }
}
