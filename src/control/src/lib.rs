//! The protocol between the wrapper, the hook, `nrictl` and `nrid`: one JSON message a frame, over
//! a unix stream socket, blocking, with file descriptors beside a frame where a message says so.
//!
//! It carries a version, because a wrapper may meet an `nrid` of another release. It knows nothing
//! of NRI. Start from [`Client`] (one end) and [`Request`] (what is said). `rustix` and not `nix`,
//! since it receives descriptors as `OwnedFd` without unsafe code.

#![forbid(unsafe_code)]

mod client;
mod frame;
mod launch;
mod marker;
mod message;
mod printable;
mod root;
mod text;

pub use client::{Client, ClientError};
pub use frame::{FrameError, MAX_FDS, MAX_FRAME, receive, send};
pub use launch::{LaunchError, Launcher, READY};
pub use marker::{EXEC_DIR, ExecChanges, ExecContainer, ExecMarker, ExecRlimit, ExecVariable};
pub use message::{
    Begin, Exit, Finished, Hook, HookKind, PROTOCOL, PluginChange, PluginStatus, Reloaded, Reply,
    Request, Status, Substitute, Verb, Verified, VerifiedSetting, Versioned,
};
pub use printable::printable;
pub use root::resolved_root;
pub use text::OsText;

/// Name of the control socket in the state directory.
pub const CONTROL_SOCKET: &str = "control.sock";
/// Name of the lock that a starter of `nrid` holds.
pub const START_LOCK: &str = "start.lock";
/// Directory of the records of containers in the state directory, a file each. It is empty when
/// there is nothing to know.
pub const RECORDS_DIR: &str = "containers";
/// Name of the lock that `nrid` holds while it lives.
pub const LIFE_LOCK: &str = "nrid.lock";
/// Name of the file with the reason why `nrid` did not start when it was tried last. It is not
/// there after a start.
pub const START_FAILURE: &str = "start-failed";
