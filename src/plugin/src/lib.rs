//! SDK for NRI plugins in Rust.
//!
//! A plugin implements [`Plugin`], a trait with a method for each event, and is started with
//! [`run`]. Handlers reply with an [`Adjustment`] of the container that is being created and with
//! [`Update`]s of existing containers.
//!
//! This plugin sets a variable and limits memory to 64 MiB in each container that is created:
//!
//! ```no_run
//! use nri_plugin::prelude::*;
//!
//! struct Greeter;
//!
//! impl Plugin for Greeter {
//!     async fn create_container(
//!         &self,
//!         _session: &Session,
//!         _pod: PodSandbox,
//!         container: Container,
//!     ) -> Reply<Creation> {
//!         let mut adjustment = Adjustment::new();
//!         adjustment.add_env("HELLO", &container.name).set_memory_limit(64 << 20);
//!         Ok(adjustment.into())
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     nri_plugin::run(Greeter)
//! }
//! ```
//!
//! It works with every runtime that speaks NRI: containerd, CRI-O, and `nrid` of
//! nri-container-runtime for other engines. Installed as `NN-greeter` in the plugin directory of a
//! runtime, it is launched by that runtime; started by anyone else, it connects to the runtime's
//! socket, and again after each restart of the runtime. [`Builder`] has settings for other cases.
//!
//! Units are those of the OCI runtime specification: bytes, microseconds, CPU shares.
//!
//! # Features
//!
//! * `logging` (default): [`run`] writes messages of `tracing` to stderr, see [`logging`];
//! * `toml`, `yaml`: configurations in these formats, see [`Configured`];
//! * `flags`: the command line of a plugin, with the flags of upstream's plugins, see [`flags`];
//! * `dump`: messages as JSON and YAML, for plugins that print them, see [`dump`].

#![deny(unsafe_code)]

mod adjustment;
mod annotation;
mod config_file;
mod configured;
#[cfg(feature = "dump")]
pub mod dump;
mod environment;
mod error;
#[cfg(feature = "flags")]
pub mod flags;
#[cfg(feature = "yaml")]
mod go_yaml;
#[cfg(feature = "logging")]
pub mod logging;
mod not_handled;
mod plugin;
mod reply;
mod resources;
mod run;
mod served;
mod session;
mod stub;
pub mod testing;
mod update;
mod written;

pub use adjustment::{Adjustment, RLIMITS};
pub use annotation::effective_annotation;
#[cfg(feature = "toml")]
pub use configured::from_toml;
#[cfg(feature = "yaml")]
pub use configured::from_yaml;
pub use configured::{ConfigurationError, Configured};
pub use environment::launched;
pub use error::StubError;
#[cfg(feature = "yaml")]
pub use go_yaml::from_go_yaml;
pub use plugin::{Plugin, handled_events};
pub use reply::{Changes, Creation, Failure, Reply};
pub use resources::SetResources;
pub use run::run;
pub use session::{RequestError, RuntimeInfo, Session};
pub use stub::{Builder, DEFAULT_SOCKETS, Stub};
pub use update::{Update, eviction};
pub use written::Mistake;

pub use nri_api::{EventMask, Marked, PluginId, UnknownEventName, opt, proto};
pub use nri_wire::{CallError, Closed};

/// What most plugins use: `use nri_plugin::prelude::*`.
pub mod prelude {
    pub use crate::proto::{Container, Event, LinuxResources, PodSandbox};
    pub use crate::{
        Adjustment, Changes, Creation, EventMask, Plugin, Reply, Session, SetResources, Update,
        eviction,
    };
}

/// The code of the tutorial.
#[cfg(doctest)]
#[doc = include_str!("../TUTORIAL.md")]
struct Tutorial;
