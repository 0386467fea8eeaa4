//! SDK to write NRI plugins in Rust: implement [`Plugin`], give it to [`Stub`], answer with
//! [`Adjustment`]s and [`Update`]s.
//!
//! ```no_run
//! use nri_plugin::{Adjustment, Creation, EventMask, Plugin, Reply, SetResources, Session, Stub, async_trait, proto::*};
//!
//! struct Greeter;
//!
//! #[async_trait]
//! impl Plugin for Greeter {
//!     fn events(&self) -> EventMask {
//!         EventMask::from_iter([Event::CREATE_CONTAINER])
//!     }
//!
//!     async fn create_container(&self, _: &Session, _: PodSandbox, container: Container) -> Reply<Creation> {
//!         let mut adjustment = Adjustment::new();
//!         adjustment.add_env("HELLO", &container.name).set_memory_limit(64 << 20);
//!         Ok(adjustment.into())
//!     }
//! }
//!
//! # async fn main_() -> Result<(), nri_plugin::StubError> {
//! // Works launched by a runtime as well as started by hand, then with this name and index.
//! Stub::builder(Greeter).name("greeter").index("50").connect().await?.run().await
//! # }
//! ```
//!
//! Deliberately absent: reconnecting. A plugin that wants to outlive its runtime calls `connect`
//! and `run` in a loop of its own, with the pauses that suit it.

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
