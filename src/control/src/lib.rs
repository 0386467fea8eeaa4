//! The protocol between the wrapper, the hook, `nrictl` and `nrid`: a JSON message per frame over a
//! blocking unix stream socket. Some messages are sent with file descriptors.
//!
//! Messages carry a version, because a wrapper may connect to an `nrid` of another release. This
//! crate does not depend on NRI. Start from [`Client`] and [`Request`]. Frames are sent with
//! `rustix` and not with `nix`, since `rustix` receives descriptors as `OwnedFd` without unsafe
//! code.

#![forbid(unsafe_code)]

mod answers;
mod client;
mod connect;
mod describe;
mod dry_run;
mod exit;
mod frame;
mod launch;
mod meant;
mod message;
mod plugin_status;
mod validation;

pub use answers::{answers, touch_as_child};
pub use client::{Client, ClientError, encode};
pub use connect::{check_peer_user, connect_to};
pub use describe::{
    CgroupPaths, ContainerDescription, ContainerExit, ContainerHook, ContainerSummary, Describe,
    Description, EncodedDescription, ObjectKind, Page, PodDescription, PodSummary,
};
pub use dry_run::{
    DryRun, DryRunAnswer, DryRunChanges, DryRunEviction, DryRunPlugin, DryRunUpdate,
};
pub use frame::{FrameError, MAX_FDS, MAX_FRAME, receive, send};
pub use launch::{LaunchError, Launcher, LogHint, READY};
pub use meant::{Ambiguous, Match};
/// The verbs for which the wrapper calls `nrid`, since plugins get events for them.
pub use nri_args::verbs::Verb;

pub use message::{
    Begin, Exit, Finished, Hook, HookKind, Inherited, MissedContainers, PROTOCOL, PluginChange,
    Reloaded, Reply, Request, Status, Substitute, Verified, VerifiedResource, Versioned,
};
pub use plugin_status::{
    CallCounts, EventCalls, PluginBudget, PluginCalls, PluginFailurePolicy, PluginLimit,
    PluginStatus, PluginSynchronization, RequestedByPlugin,
};
pub use validation::{Validated, Validation, ValidationSeverity};
