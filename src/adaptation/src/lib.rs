//! NRI adaptation of a runtime: discovers and launches plugins, manages their sessions, and
//! delivers events to all plugins in the same order.
//!
//! Start from [`Adaptation`]. It is started with a [`ContainerManager`], which records the
//! containers, and receives the requests of an engine as NRI messages. It calls the plugins, merges
//! their replies (`nri-merge`), and passes the outcome to a commit function that the caller
//! supplies with the request.
//!
//! This crate handles neither OCI configs nor cgroups, and keeps no records of containers.
//!
//! | module | content |
//! |---|---|
//! | `adaptation` | start, external connections, status, reload, shutdown |
//! | `events` | handling of each event |
//! | `launch` | discovery, programs and their privileges, restarts, reload |
//! | `session` | registration, synchronization, requests of plugins, end of a session |
//! | `order` | the pipeline, which gives all plugins the same order of requests |
//! | `plugin` | a plugin's calls, queue and status; the registry of all plugins |
//! | `policy` | permissions, scopes, privileges and peers that the operator allows |
//! | `core` | state that the modules above share |
//! | `config`, `manager`, `error` | input, calls to the manager, and errors |
//!
//! Imports between files form no cycle, but modules are not strict layers: `events` adds methods to
//! `Adaptation`, for example, and a session owns the `Process` of its launched plugin.

#![deny(unsafe_code)]

mod adaptation;
mod config;
mod core;
mod error;
mod events;
mod launch;
mod manager;
mod order;
mod plugin;
mod policy;
mod session;

pub use adaptation::Adaptation;
pub use config::{AdaptationConfig, OtherRuntime};
pub use error::{AdaptError, Fault, NoReply, SessionError};
pub use events::notify::Delivery;
pub use events::update::StopOutcome;
pub use launch::discovery::{FileUse, plugin_files};
pub use launch::launcher;
pub use launch::plan::ReloadAction;
pub use launch::reload::{PendingReload, ReloadOutcome, ReloadedPlugin};
pub use launch::skip_reason::{DigestMismatch, LaunchedByOther, SkipReason};
pub use launch::supervisor::LaunchOutcome;
pub use manager::{ContainerManager, Snapshot};
pub use order::context::{RequestContext, WithheldReply};
pub use plugin::histogram::{BUCKET_BOUNDS, DurationHistogram};
pub use plugin::registrant::{ReplacementBar, ReplacementRefused};
pub use plugin::statistics::{CallFailures, EventStatistics, PluginStatistics};
pub use plugin::status::{
    AbsentPlugin, PluginHistory, PluginLimit, PluginOrigin, PluginState, PluginStatus,
    SynchronizationProgress,
};
pub use plugin::trace::{RequestTrace, inherited, traced};
pub use policy::budget::{Budget, BudgetExemption};
pub use policy::failure_policy::{FailureHandling, RequestedFailurePolicy};
pub use policy::fields::field_groups;
pub use policy::peers::{PeerGroup, PeerPolicy, PeerRefusal};
pub use policy::permissions::{
    AmbiguousPermissions, DenialReason, PermissionDenied, Permissions, UnknownGroup,
};
pub use policy::plugin_policy::{OnFailure, PluginPolicy, WithheldBy};
pub use policy::privileges::{InvalidArgument, Privileges};
pub use policy::scope::{Origin, OutsideScope, Pattern, Scope};

/// Configuration of the built-in validator, part of [`AdaptationConfig`].
pub use nri_merge::validator::DefaultValidatorConfig;
pub use nri_merge::{CreateOutcome, UpdateOutcome, UpdatesOutcome};

/// The context that plugins receive and send.
pub use nri_wire::TraceContext;
