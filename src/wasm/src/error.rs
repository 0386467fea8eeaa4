//! Errors of a WebAssembly plugin, as its log and the status of the plugin show them.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Reason why the plugin cannot run, or cannot run any longer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The command line is not `--memory BYTES MODULE`.
    #[error("usage: nri-wasm-host --memory BYTES MODULE")]
    Usage,
    /// The module cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the module.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The module is invalid, or cannot be instantiated.
    #[error("invalid module: {0}")]
    Module(wasmi::Error),
    /// The module has no memory of this name, or no function of this name and type.
    #[error("invalid module: does not export {0}")]
    NoExport(&'static str),
    /// The module was built for another version of the interface.
    #[error("plugin API version of the module is {0}, 1 is supported")]
    ApiVersion(u64),
    /// The module exports no function that handles an event.
    #[error("invalid module: exports no function for an event")]
    NoEvents,
    /// The guest did not return in time.
    #[error("{function} did not return within {limit:?}, module ended")]
    Timeout {
        /// Function of the guest.
        function: &'static str,
        /// Time limit.
        limit: Duration,
    },
    /// The guest asked for more memory than it may have.
    #[error("{function} exceeded the memory limit of {} MiB, module ended", limit >> 20)]
    Memory {
        /// Function of the guest.
        function: &'static str,
        /// Limit in bytes.
        limit: usize,
    },
    /// The guest trapped, or called the host in a wrong way.
    #[error("{function} trapped: {cause}")]
    Trap {
        /// Function of the guest.
        function: &'static str,
        /// Cause, as the engine words it.
        cause: String,
    },
    /// The guest called `proc_exit`.
    #[error("{function} exited with code {code}")]
    Exit {
        /// Function of the guest.
        function: &'static str,
        /// Exit code.
        code: i32,
    },
    /// The guest passed a pointer that is outside of its memory.
    #[error("{function} returned {size} bytes at {pointer:#x}, outside of the guest's memory")]
    OutOfBounds {
        /// Function of the guest.
        function: &'static str,
        /// Address in the guest's memory.
        pointer: u32,
        /// Size in bytes.
        size: u32,
    },
    /// The guest's reply is no message of the protocol.
    #[error("reply of {function} is malformed: {source}")]
    Malformed {
        /// Function of the guest.
        function: &'static str,
        /// Cause.
        source: protobuf::Error,
    },
    /// The thread of the guest panicked.
    #[error("the engine panicked in {0}")]
    Panic(&'static str),
    /// The process was not launched by a runtime, or cannot be registered.
    #[error(transparent)]
    Stub(#[from] nri_plugin::StubError),
    /// The session with the runtime failed.
    #[error("session failed: {0}")]
    Session(String),
    /// The process cannot be set up.
    #[error("cannot start: {0}")]
    Start(#[source] io::Error),
}
