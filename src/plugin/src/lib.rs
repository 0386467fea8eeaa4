//! SDK for NRI plugins in Rust.
//!
//! Implement [`Plugin`], a trait with a method for each event, and run it with a [`Stub`], which
//! connects to the runtime and registers the plugin. Handlers reply with an [`Adjustment`] of the
//! container that is being created and with [`Update`]s of existing containers.
//!
//! This plugin sets a variable and limits memory to 64 MiB in each container that is created:
//!
//! ```no_run
//! use nri_plugin::proto::{Container, Event, PodSandbox};
//! use nri_plugin::{
//!     Adjustment, Creation, EventMask, Plugin, Reply, Session, SetResources, Stub, async_trait,
//! };
//!
//! struct Greeter;
//!
//! #[async_trait]
//! impl Plugin for Greeter {
//!     fn events(&self) -> EventMask {
//!         EventMask::from_iter([Event::CREATE_CONTAINER])
//!     }
//!
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
//! # async fn main_() -> Result<(), nri_plugin::StubError> {
//! // A runtime that launches the plugin determines its name and index; otherwise these apply.
//! Stub::builder(Greeter).name("greeter").index("50").connect().await?.run().await
//! # }
//! ```
//!
//! Units are those of the OCI runtime specification: bytes, microseconds, CPU shares.
//!
//! Deliberately absent: reconnecting. A plugin that is to continue after a restart of its
//! runtime calls `connect` and `run` in a loop, with a pause of its choice.

#![deny(unsafe_code)]

mod adjustment;
mod error;
mod launched;
mod plugin;
mod resources;
mod served;
mod session;
mod stub;
mod update;

pub use adjustment::Adjustment;
pub use error::StubError;
pub use plugin::{Changes, Creation, Failure, Plugin, Reply};
pub use resources::SetResources;
pub use session::{RuntimeInfo, Session};
pub use stub::{Builder, DEFAULT_SOCKETS, Stub};
pub use update::{Update, eviction};

pub use async_trait::async_trait;
pub use nri_api::{EventMask, Marked, PluginId, opt, proto};
pub use nri_wire::{CallError, Closed};
