//! Reasons why files of the plugin directory are not launched.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::OtherRuntime;
use nri_api::InvalidPlugin;
use nri_trust::Untrusted;

/// Reason why a file of the plugin directory, or the whole directory, is skipped.
#[derive(Debug, thiserror::Error)]
pub enum SkipReason {
    /// The executable is not named `NN-name`.
    #[error(transparent)]
    Name(#[from] InvalidPlugin),
    /// The kernel cannot execute the file: it has neither the header of a program nor a line with
    /// an interpreter.
    #[error("neither a program nor a script that begins with #! and its interpreter")]
    NoProgram,
    /// The file is a WebAssembly module, and the program that runs such modules is not installed.
    #[error("webassembly plugin, and nri-wasm-host is not installed")]
    NoWasmHost,
    /// Other users can replace the program that runs WebAssembly modules.
    #[error("webassembly plugin, and nri-wasm-host is not trusted: {0}")]
    WasmHostUntrusted(#[source] Untrusted),
    /// A plugin that was enabled for this runtime is not executable.
    #[error("not executable")]
    NotExecutable,
    /// Another NRI runtime launches the plugin, of which only one instance may run.
    #[error(transparent)]
    LaunchedByOther(#[from] LaunchedByOther),
    /// A file of the same name has precedence.
    #[error("{} is launched in its place", .0.display())]
    SameName(PathBuf),
    /// Other users can replace the program.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    /// The file or its target cannot be read, or the directory cannot be listed.
    #[error("cannot be read")]
    Unreadable(#[source] io::Error),
    /// The directory or a file of it cannot be read in time.
    #[error("no reply within {0:?}: the file system hangs")]
    Hangs(Duration),
    /// The file does not have the digest that its policy pins.
    #[error(transparent)]
    Digest(#[from] DigestMismatch),
    /// The file has to have the digest that its policy pins, and cannot be read or copied.
    #[error("digest of {} cannot be verified: {source}", path.display())]
    Unverified {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// Other users can change the configuration file.
    #[error("configuration not trusted: {0}")]
    ConfigUntrusted(#[source] Untrusted),
    /// The configuration file cannot be read, or cannot be sent to the plugin: it is not UTF-8, or
    /// larger than a message.
    #[error("configuration {} cannot be read: {source}", path.display())]
    Config {
        /// Path of the configuration file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

/// Reason why a plugin of a single instance is not launched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "it manages resources of the whole node, and {} launches it for its own containers; \
     `{}` ends that", .0.name, .0.remedy
)]
pub struct LaunchedByOther(pub(crate) OtherRuntime);

impl SkipReason {
    /// Whether the launch is tried again after a pause: the file system may reply again, or the
    /// plugin's configuration file may be repaired. A program that is not trusted, or has another
    /// digest, is not launched before a reload.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Hangs(_)
                | Self::Unverified { .. }
                | Self::ConfigUntrusted(_)
                | Self::Config { .. }
        )
    }
}

/// A file does not have the digest that its policy pins.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} has digest {found}, and not {expected} of its policy", path.display())]
pub struct DigestMismatch {
    /// Path of the file.
    pub path: PathBuf,
    /// The pinned digest.
    pub expected: String,
    /// Digest of the file.
    pub found: String,
}
