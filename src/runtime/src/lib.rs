//! NRI for container runtimes and engines: plugins adjust the `config.json` of containers, update
//! their resources, and receive the events of pods and containers.
//!
//! Start from [`Nri`]. A runtime reports what it is about to do and what it has done, and passes
//! each new `config.json` through [`Nri::create_container`]. What plugins request of containers
//! that exist arrives at the runtime's [`RuntimeHandler`]. This crate never calls a low-level
//! runtime, and changes neither files nor cgroups of containers.
//!
//! ```
//! use nri_runtime::{RuntimeConfig, ContainerInfo, Error, Nri, Snapshot, proto::PodSandbox};
//!
//! async fn life(bundle: &[u8]) -> Result<(), Error> {
//!     let mut config = RuntimeConfig::new("example", "1.0");
//!     config.plugin_dir = "/opt/nri/plugins".into();
//!     config.socket = Some("/var/run/nri/nri.sock".into());
//!     // `()` cannot update containers; see `RuntimeHandler`.
//!     let nri = Nri::start(config, (), Snapshot::default()).await?;
//!
//!     let pod = PodSandbox { id: "p1".into(), name: "web".into(), ..PodSandbox::default() };
//!     nri.run_pod_sandbox(pod).await?;
//!     let info = ContainerInfo {
//!         id: "c1".into(),
//!         pod_sandbox_id: "p1".into(),
//!         name: "nginx".into(),
//!         ..ContainerInfo::default()
//!     };
//!     let adjusted = nri.create_container(&info, bundle).await?;
//!     // Write `adjusted.config` to the bundle's config.json, and run `runc create` …
//!     drop(adjusted);
//!     nri.change_container("c1", |container| container.pid = 4711)?;
//!     nri.post_create_container("c1")?;
//!     nri.start_container("c1").await?;
//!     // `runc start` …
//!     nri.post_start_container("c1")?;
//!     // … until the container has ended; then `runc delete`.
//!     nri.stop_container("c1").await?;
//!     nri.remove_container("c1").await?;
//!     nri.stop_pod_sandbox("p1").await?;
//!     nri.remove_pod_sandbox("p1").await?;
//!     nri.shutdown().await;
//!     Ok(())
//! }
//! ```
//!
//! # Order
//!
//! All plugins receive all events in the same order: that of the calls of [`Nri`]'s methods. Events
//! of one container must not be sent at the same time; those of different containers may. A
//! plugin that registers while events are sent gets a snapshot that lies exactly between two of
//! them. For this, the crate keeps records of pods and containers from their first event to their
//! removal; a runtime that starts again passes those that exist to [`Nri::start`].
//!
//! # Failures
//!
//! A plugin that does not reply in time, or ends, is closed, and events go on without it, unless
//! [`RuntimeConfig::required_plugins`] names it, or the plugin has asked for another failure policy
//! in its reply to `Configure`. Launched plugins are launched again, after a pause
//! that grows with each failure. If a plugin refuses a creation, or plugins contradict one another,
//! nothing changes, and the plugins that received the event get a stop and a removal. If the
//! low-level runtime fails later, the caller sends [`Nri::stop_container`] and
//! [`Nri::remove_container`].

#![forbid(unsafe_code)]

mod config;
mod creation;
mod error;
mod events;
mod handler;
mod nri;
mod plugin;
mod pod_events;
mod records;
mod socket;
mod update;
mod updates;

pub use config::RuntimeConfig;
pub use creation::AdjustedOciConfig;
pub use error::Error;
pub use handler::{HandlerResult, RuntimeHandler};
pub use nri::Nri;
pub use plugin::Plugin;

/// Pods and containers that plugins are synchronized with.
pub use nri_adaptation::Snapshot;
/// Messages of the protocol, and the identity of a plugin.
pub use nri_api::{PluginId, proto};
/// Facts about the host that [`RuntimeHandler`] supplies, and what parses them.
pub use nri_spec::{
    BlockIoClasses, CdiResolver, HostDevice, HostDeviceKind, Propagation, RdtClasses,
    cdi::{CdiEdits, CdiError, CdiRegistry, CdiSpecFile},
};
/// Facts about a container that its `config.json` does not have.
pub use nri_spec::{ContainerImage, ContainerInfo};
