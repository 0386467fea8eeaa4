//! NRI plugins: found, launched, registered, and asked about events in one order.
//!
//! Start from [`Adaptation`]. It is given the requests of an engine as NRI messages and a
//! [`ContainerManager`] that keeps the containers; it asks the plugins, merges their replies
//! (`nri-merge`), and hands the outcome to a commit that the caller passes with the request.
//!
//! Deliberately absent: the OCI document, cgroups, and where containers are recorded.
//!
//! | file | what |
//! |---|---|
//! | `adaptation` | start, listening, launching, status, shutdown |
//! | `discovery`, `launch`, `output`, `restart` | the plugin directory; programs, what they write, and when they are launched again |
//! | `reload` | another configuration, and what changed in the plugin directory, while plugins run |
//! | `privileges`, `launcher` | as whom they run: said, and done |
//! | `peers`, `permissions` | who may connect; what a plugin may change |
//! | `connect`, `service`, `synchronize` | the life of a session; what a plugin may call; the first view of the state |
//! | `line`, `station` | the one order of requests |
//! | `plugin`, `session` | one plugin: how it is asked, and its failures; the table of events |
//! | `create`, `update`, `events` | what each event does |
//! | `asking` | requests that can be refused: whom they reached, and that those hear of it |
//! | `config`, `host`, `status`, `error` | what goes in and out |

#![deny(unsafe_code)]

mod adaptation;
mod asking;
mod config;
mod connect;
mod create;
mod discovery;
mod error;
mod events;
mod host;
mod launch;
pub mod launcher;
mod line;
mod obeyed;
mod output;
mod peers;
mod permissions;
mod plugin;
mod privileges;
mod reload;
mod restart;
mod service;
mod session;
mod station;
mod status;
mod synchronize;
mod update;

pub use adaptation::{Adaptation, LaunchOutcome};
pub use asking::RequestContext;
pub use config::{AdaptationConfig, OnFailure, PeerPolicy, PluginPolicy};
pub use discovery::SkipReason;
pub use error::{AdaptError, Fault, SessionError};
pub use events::Delivery;
pub use host::{ContainerManager, Snapshot};
pub use peers::PeerRefusal;
pub use permissions::{DenialReason, PermissionDenied, Permissions, UnknownGroup, field_groups};
pub use privileges::{InvalidArgument, Privileges};
pub use reload::{ReloadAction, ReloadOutcome, ReloadedPlugin};
pub use status::{PluginOrigin, PluginState, PluginStatus};
pub use synchronize::TooLarge;
pub use update::StopOutcome;

/// The built-in validator's settings, part of [`AdaptationConfig`].
pub use nri_merge::validator::DefaultValidatorConfig;
pub use nri_merge::{CreateOutcome, UpdateOutcome, UpdatesOutcome};
