//! Adaptation of a runtime to NRI: discovers and launches plugins, keeps their sessions, and calls
//! them for each event in one order.
//!
//! Start from [`Adaptation`]. It receives the requests of an engine as NRI messages, and a
//! [`ContainerManager`] that records the containers. It calls the plugins, merges their replies
//! (`nri-merge`), and passes the outcome to a commit function that the caller supplies with the
//! request.
//!
//! Deliberately absent: the OCI config, cgroups, and the records of containers.
//!
//! | module | content |
//! |---|---|
//! | `adaptation` | start, external connections, status, reload, shutdown |
//! | `events` | handling of each event |
//! | `launch` | discovery, programs and their privileges, restarts, reload |
//! | `session` | registration, synchronization, requests of plugins, end of a session |
//! | `order` | the pipeline: one order of requests at all plugins |
//! | `plugin` | one plugin: its calls, queue and status |
//! | `policy` | permissions, privileges and peers that the operator allows |
//! | `core` | state that the modules above share |
//! | `config`, `manager`, `error` | input, calls to the manager, and errors |
//!
//! A module uses only modules further down in this table; `config`, `manager` and `error` use
//! leaves of it.

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
pub use config::AdaptationConfig;
pub use error::{AdaptError, Fault, SessionError};
pub use events::notify::Delivery;
pub use events::update::StopOutcome;
pub use launch::discovery::SkipReason;
pub use launch::launcher;
pub use launch::plan::ReloadAction;
pub use launch::reload::{ReloadOutcome, ReloadedPlugin};
pub use launch::supervisor::LaunchOutcome;
pub use manager::{ContainerManager, Snapshot};
pub use order::context::RequestContext;
pub use plugin::status::{PluginOrigin, PluginState, PluginStatus};
pub use policy::fields::field_groups;
pub use policy::peers::{PeerPolicy, PeerRefusal};
pub use policy::permissions::{DenialReason, PermissionDenied, Permissions, UnknownGroup};
pub use policy::plugin_policy::{OnFailure, PluginPolicy};
pub use policy::privileges::{InvalidArgument, Privileges};
pub use session::synchronize::TooLarge;

/// Configuration of the built-in validator, part of [`AdaptationConfig`].
pub use nri_merge::validator::DefaultValidatorConfig;
pub use nri_merge::{CreateOutcome, UpdateOutcome, UpdatesOutcome};
