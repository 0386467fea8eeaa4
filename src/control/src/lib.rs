//! The protocol between the wrapper, the hook, `nrictl` and `nrid`: a JSON message per frame over a
//! blocking unix stream socket. Some messages are sent with file descriptors.
//!
//! Messages carry a version, because a wrapper may connect to an `nrid` of another release. This
//! crate does not depend on NRI. Start from [`Client`] and [`Request`]. Frames are sent with
//! `rustix` and not with `nix`, since `rustix` receives descriptors as `OwnedFd` without unsafe
//! code.

#![forbid(unsafe_code)]

mod audit;
mod client;
mod connect;
mod describe;
mod dry_run;
mod files;
mod frame;
mod launch;
mod life;
mod marker;
mod message;
mod plugin_status;
mod printable;
mod root;
mod text;
mod validation;

pub use audit::{
    AUDIT_LOG, AuditEvent, AuditLine, FieldChange, MASKED, MissedPlugin, PREVIOUS_SUFFIX, mask_hook,
};
pub use client::{Client, ClientError};
pub use connect::{check_peer_user, connect_to};
pub use describe::{
    CgroupPaths, ContainerDescription, ContainerExit, ContainerHook, ContainerSummary, Describe,
    Description, EncodedDescription, ObjectKind, Page, PodDescription, PodSummary,
};
pub use dry_run::{
    DryRun, DryRunAnswer, DryRunChanges, DryRunEviction, DryRunPlugin, DryRunUpdate,
};
pub use files::{
    CONTROL_SOCKET, LIFE_FILE, LIFE_LOCK, LOG_FILE, MAX_RECORD, READY_SOCKET, RECORDS_DIR,
    START_FAILURE, START_LOCK,
};
pub use frame::{FrameError, MAX_FDS, MAX_FRAME, receive, send};
pub use launch::{LaunchError, Launcher, LogHint, READY};
pub use life::{NridLife, UncleanEnd};
pub use marker::{EXEC_DIR, ExecChanges, ExecContainer, ExecMarker, ExecRlimit, ExecVariable};
pub use message::{
    Begin, Exit, Finished, Hook, HookKind, Inherited, MissedContainers, PROTOCOL, PluginChange,
    Reloaded, Reply, Request, Status, Substitute, Verb, Verified, VerifiedResource, Versioned,
};
pub use plugin_status::{
    CallCounts, EventCalls, PluginCalls, PluginFailurePolicy, PluginStatus, PluginSynchronization,
    RequestedByPlugin,
};
pub use printable::printable;
pub use root::resolved_root;
pub use text::OsText;
pub use validation::{Validated, Validation, ValidationSeverity};
